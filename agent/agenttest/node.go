package agenttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/wire"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// Geometry of the pools.
const (
	block     = 4096
	blocks    = 256
	otherSize = 3 * block // of region 1
	poison    = 0xA5
)

// suite is one test's surroundings.
type suite struct {
	*testing.T
	newAgent Make
	heap     bool
	lives    uint64
	ids      uint64
}

// withoutLeak runs a test and then waits until the goroutines that it started have ended.
func (s *suite) withoutLeak(run func(*suite)) {
	before := runtime.NumGoroutine()
	s.Run("test", func(t *testing.T) {
		s := *s
		s.T = t
		run(&s)
	})
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			b := make([]byte, 1<<20)
			s.Fatalf("goroutines are left:\n%s", b[:runtime.Stack(b, true)])
		}
		runtime.Gosched()
	}
}

// node is an agent with two regions full of poison, and the events that came.
type node struct {
	agent.Agent
	s     *suite
	hello wire.Hello
	pool  []byte // region 0
	other []byte // region 1
	came  []agent.Event
	ended bool
}

// hello is what all nodes say but for the life.
func (s *suite) hello() wire.Hello {
	s.lives++
	h := wire.Hello{Role: "decode", Identity: wire.Identity{
		Version: wire.Version, Model: "abc", DType: "f16", BlockTokens: 16, KVHeads: 4, HeadDim: 32,
		Groups: []wire.Group{{Window: 128, Layers: []uint16{0, 1}}, {Layers: []uint16{2}}},
	}}
	binary.BigEndian.PutUint64(h.Life[:], s.lives)
	return h
}

// made makes a node that is not started.
func (s *suite) made(o Options, h wire.Hello) *node {
	s.Helper()
	n := &node{Agent: s.newAgent(s.T, o), s: s, hello: h}
	n.pool, n.other = s.memory(blocks*block), s.memory(otherSize)
	for i, mem := range [][]byte{n.pool, n.other} {
		fill(mem, poison)
		r, err := n.Register(mem)
		if err != nil || int(r) != i {
			s.Fatalf("register: region %d, %v", r, err)
		}
	}
	// Memory outlives the agent: cleanups run last first.
	s.Cleanup(n.close)
	return n
}

func (s *suite) memory(size int) []byte {
	if s.heap {
		return make([]byte, size)
	}
	m, err := memory.Map("agenttest", size)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := m.Close(); err != nil {
			s.Error(err)
		}
	})
	return m.Bytes()
}

// node makes and starts a node.
func (s *suite) node(o Options) *node {
	s.Helper()
	n := s.made(o, s.hello())
	if err := n.Start(n.hello); err != nil {
		s.Fatal(err)
	}
	return n
}

// pair makes two nodes that are connected; a has the options.
func (s *suite) pair(o Options) (a, b *node) {
	s.Helper()
	a, b = s.node(o), s.node(Options{FrameBytes: o.FrameBytes, RevokeGrace: o.RevokeGrace})
	a.connect(b)
	return a, b
}

// connect connects and waits until both know.
func (n *node) connect(to *node) {
	n.s.Helper()
	n.Connect(to.Addr())
	await(n, func(e agent.PeerUp) bool { return e.Hello.Life == to.life() })
	await(to, func(e agent.PeerUp) bool { return e.Hello.Life == n.life() })
}

func (n *node) life() wire.Life { return n.hello.Life }

// close closes the agent and reads its events to their end.
func (n *node) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		n.s.Error(err)
	}
	for n.read() {
	}
}

// read reads one event; false says that there are no more.
func (n *node) read() bool {
	n.s.Helper()
	if n.ended {
		return false
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case e, ok := <-n.Events():
		n.ended = !ok
		if ok {
			n.came = append(n.came, e)
		}
		return ok
	case <-timeout.C:
		n.s.Fatalf("nothing comes any more; what came and was not waited for: %s", n.list())
		return false
	}
}

func (n *node) list() string {
	var b bytes.Buffer
	for _, e := range n.came {
		fmt.Fprintf(&b, "\n%T %v", e, e)
	}
	return b.String()
}

// await waits for an event of a type that matches, and takes it out of what came.
func await[E agent.Event](n *node, match func(E) bool) E {
	n.s.Helper()
	for i := 0; ; i++ {
		if i == len(n.came) && !n.read() {
			n.s.Fatalf("events ended; what came and was not waited for: %s", n.list())
		}
		if e, ok := n.came[i].(E); ok && match(e) {
			n.came = append(n.came[:i], n.came[i+1:]...)
			return e
		}
	}
}

func every[E agent.Event](E) bool { return true }

// done waits for the end of a transfer.
func (n *node) done(id uint64) error {
	n.s.Helper()
	return await(n, func(d agent.Done) bool { return d.ID == id }).Err
}

// quiet fails if an event of the type came, or comes before a notice that takes the way of all
// events from the peer.
func quiet[E agent.Event](n, peer *node) {
	n.s.Helper()
	peer.Notify(n.life(), []byte("quiet?"))
	await(n, func(e agent.Notice) bool { return string(e.Payload) == "quiet?" })
	for _, e := range n.came {
		if e, ok := e.(E); ok {
			n.s.Errorf("%T %v came", e, e)
		}
	}
}

// list is the pool in blocks.
func list() agent.List {
	l := make(agent.List, blocks)
	for i := range l {
		l[i] = agent.Desc{Offset: uint64(i * block), Length: block}
	}
	return l
}

// blocksOf are the ranges of blocks, for a grant.
func blocksOf(idx []int32) []agent.Desc {
	var ds []agent.Desc
	for _, i := range idx {
		ds = append(ds, agent.Desc{Offset: uint64(i) * block, Length: block})
	}
	return ds
}

func (s *suite) id() uint64 {
	s.ids++
	return s.ids
}

// transfer moves whole blocks between pools.
func (s *suite) transfer(peer *node, epoch uint64, local, remote []int32, notice string) agent.Transfer {
	t := agent.Transfer{
		ID: s.id(), Peer: peer.life(), Local: list(), LocalIdx: local, Remote: list(), RemoteIdx: remote, Epoch: epoch,
	}
	if notice != "" {
		t.Notice = []byte(notice)
	}
	return t
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// noise fills memory with bytes that seed decides.
func noise(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
}

func (n *node) block(i int32) []byte { return n.pool[int(i)*block : int(i+1)*block] }

// untouched fails unless a node's memory is all poison but for these blocks.
func (n *node) untouched(but ...int32) {
	n.s.Helper()
	written := map[int]bool{}
	for _, i := range but {
		written[int(i)] = true
	}
	for i, v := range n.pool {
		if v != poison && !written[i/block] {
			n.s.Fatalf("byte %d of block %d is written", i%block, i/block)
		}
	}
	for i, v := range n.other {
		if v != poison {
			n.s.Fatalf("byte %d of region 1 is written", i)
		}
	}
}

// seq is n numbers from first.
func seq(first, n int32) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = first + int32(i)
	}
	return s
}
