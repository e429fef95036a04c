// Plain is what agents are compared with: a copy of permuted blocks within one process, and the
// same blocks over one or two plain connections of a network between two processes, in order and
// with nothing said beside them.
//
//	plain memcpy TOTAL BLOCK...
//	plain sockets TOTAL CONNECTIONS BLOCK...
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"kvferry/agent/memory"
	"kvferry/bench/transfer"
)

// line is what run.py reads.
type line struct {
	Name    string  `json:"name"`
	Op      string  `json:"op"`
	Block   int     `json:"block"`
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("want memcpy or sockets, a total and more")
	}
	var numbers []int
	for _, a := range args[1:] {
		n, err := strconv.Atoi(a)
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	total := numbers[0]
	switch args[0] {
	case "memcpy":
		return memcpy(total, numbers[1:])
	case "sockets":
		return sockets(total, numbers[1], numbers[2:])
	case "receive":
		return receive(total, numbers[1], numbers[2:])
	}
	return fmt.Errorf("%q is not known", args[0])
}

func mapped(total int) ([]byte, error) {
	m, err := memory.Map("plain", total)
	if err != nil {
		return nil, err
	}
	b := m.Bytes()
	for i := range b {
		b[i] = byte(i * 31 >> 3)
	}
	return b, nil
}

func permutations(n int) (from, to []int) {
	rnd := rand.New(rand.NewPCG(uint64(n), 1))
	return rnd.Perm(n), rnd.Perm(n)
}

func say(name string, block, total int, seconds, used float64) error {
	return json.NewEncoder(os.Stdout).Encode(line{name, "write", block, total, seconds, used})
}

func memcpy(total int, blocks []int) error {
	src, err := mapped(total)
	if err != nil {
		return err
	}
	dst, err := mapped(total)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		from, to := permutations(total / block)
		var seconds, used float64
		for range 2 { // the first one warms up
			cpu, began := transfer.Processor(), time.Now()
			for i := range from {
				copy(dst[to[i]*block:(to[i]+1)*block], src[from[i]*block:])
			}
			seconds, used = time.Since(began).Seconds(), transfer.Processor()-cpu
		}
		if err := say("memcpy", block, total, seconds, used); err != nil {
			return err
		}
	}
	return nil
}

// sockets sends what another process of this program receives, the blocks dealt out to the
// connections in turn.
func sockets(total, conns int, blocks []int) error {
	src, err := mapped(total)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	args := []string{"receive", strconv.Itoa(total), strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}
	for _, b := range append([]int{conns}, blocks...) {
		args = append(args, strconv.Itoa(b))
	}
	child := exec.Command(os.Args[0], args...)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return err
	}
	said := bufio.NewReader(out)
	var cs []net.Conn
	for range conns {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		defer c.Close()
		cs = append(cs, c)
	}
	for _, block := range blocks {
		from, _ := permutations(total / block)
		var seconds, used float64
		for range 2 { // the first one warms up
			theirs, err := told(said)
			if err != nil {
				return err
			}
			cpu, began := transfer.Processor(), time.Now()
			if err := each(cs, func(i int, c net.Conn) error { return send(c, src, from, block, i, conns) }); err != nil {
				return err
			}
			after, err := told(said)
			if err != nil {
				return err
			}
			seconds, used = time.Since(began).Seconds(), transfer.Processor()-cpu+after-theirs
		}
		if err := say(fmt.Sprintf("sockets %d", conns), block, total, seconds, used); err != nil {
			return err
		}
	}
	return child.Wait()
}

func told(r *bufio.Reader) (float64, error) {
	s, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(s), 64)
}

func each(cs []net.Conn, do func(int, net.Conn) error) error {
	errs := make([]error, len(cs))
	var all sync.WaitGroup
	for i, c := range cs {
		all.Go(func() { errs[i] = do(i, c) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// most is how many blocks go in one call of the system.
const most = 1024

func send(c net.Conn, src []byte, from []int, block, first, step int) error {
	bufs := make(net.Buffers, 0, most)
	for i := first; i < len(from); i += step {
		bufs = append(bufs, src[from[i]*block:(from[i]+1)*block])
		if len(bufs) < most && i+step < len(from) {
			continue
		}
		whole := bufs
		if _, err := whole.WriteTo(c); err != nil {
			return err
		}
		bufs = bufs[:0]
	}
	return nil
}

// receive takes the blocks off the connections, before and after each round saying what it used.
func receive(total, port int, rest []int) error {
	dst, err := mapped(total)
	if err != nil {
		return err
	}
	conns, blocks := rest[0], rest[1:]
	var cs []net.Conn
	for range conns {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		defer c.Close()
		cs = append(cs, c)
	}
	for _, block := range blocks {
		_, to := permutations(total / block)
		for range 2 {
			fmt.Println(transfer.Processor())
			err := each(cs, func(first int, c net.Conn) error {
				for i := first; i < len(to); i += conns {
					if _, err := io.ReadFull(c, dst[to[i]*block:(to[i]+1)*block]); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			fmt.Println(transfer.Processor())
		}
	}
	return nil
}
