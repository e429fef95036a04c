package transfer

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"io"
	"syscall"
	"time"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/wire"
)

// node is one process's agent with its memory.
type node struct {
	agent.Agent
	life   wire.Life
	memory *memory.Memory
}

func startNode(open func(string) (agent.Agent, error), name string, total int) (*node, error) {
	a, err := open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m, err := memory.Map("kvferry-bench", total)
	if err != nil {
		return nil, err
	}
	n := &node{Agent: a, memory: m}
	rand.Read(n.life[:])
	if _, err := a.Register(m.Bytes()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	hello := wire.Hello{Life: n.life, Role: "bench", Identity: wire.Identity{Version: wire.Version}}
	if err := a.Start(hello); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fill(m.Bytes(), n.life[0])
	return n, nil
}

// fill touches every page, with bytes that tell places apart.
func fill(mem []byte, seed byte) {
	for i := 0; i+8 <= len(mem); i += 8 {
		at := uint64(i)*0x9E3779B97F4A7C15 + uint64(seed)
		for j := range 8 {
			mem[i+j] = byte(at >> (8 * j))
		}
	}
}

const closing = 20 * time.Second

func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	go func() {
		for range n.Events() {
			continue
		}
	}()
	if err := n.Close(ctx); err != nil {
		return err
	}
	return n.memory.Close()
}

// Processor is how many seconds of processor this process has used.
func Processor() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// Serve is a peer's whole work: it says its address, lets the first peer that comes write into all
// of its memory, gives pings back, and answers on out what in asks, until in ends.
//
//	cpu  seconds of processor
//	sum  CRC-32 of the memory
func Serve(open func(string) (agent.Agent, error), name string, total int, in io.Reader, out io.Writer) error {
	n, err := startNode(open, name, total)
	if err != nil {
		return err
	}
	asked := make(chan string)
	go func() {
		defer close(asked)
		for s := bufio.NewScanner(in); s.Scan(); {
			asked <- s.Text()
		}
	}()
	fmt.Fprintf(out, "%s %s\n", n.Addr(), n.life)
	for {
		select {
		case q, ok := <-asked:
			if !ok {
				return n.close()
			}
			switch q {
			case "cpu":
				fmt.Fprintln(out, Processor())
			case "sum":
				fmt.Fprintln(out, crc32.ChecksumIEEE(n.memory.Bytes()))
			}
		case e, ok := <-n.Events():
			if !ok {
				return fmt.Errorf("%s: the agent ended", name)
			}
			switch e := e.(type) {
			case agent.PeerUp:
				n.Grant(1, e.Hello.Life, []agent.Desc{{Length: uint64(total)}})
			case agent.Notice:
				n.Notify(e.Peer, e.Payload)
			}
		}
	}
}
