package transfer

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

// remote is a peer as we see it.
type remote struct {
	*Process
	lines *bufio.Reader
	life  wire.Life
}

// bed is one agent with its peers.
type bed struct {
	name  string
	here  *node
	peers []*remote
	ids   uint64
	lists map[int]agent.List
}

func (p *remote) ask(question string) (string, error) {
	if question != "" {
		if _, err := fmt.Fprintln(p.In, question); err != nil {
			return "", err
		}
	}
	line, err := p.lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("a peer ended: %w", err)
	}
	return line[:len(line)-1], nil
}

func makeBed(o Options, name string) (b *bed, err error) {
	b = &bed{name: name, lists: map[int]agent.List{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.here, err = startNode(o.Open, name, o.Total); err != nil {
		return b, err
	}
	for range o.Peers {
		p, err := o.Peer(name, o.Total)
		if err != nil {
			return b, err
		}
		r := &remote{Process: p, lines: bufio.NewReader(p.Out)}
		b.peers = append(b.peers, r)
		line, err := r.ask("")
		if err != nil {
			return b, err
		}
		var addr, life string
		if _, err := fmt.Sscan(line, &addr, &life); err != nil {
			return b, fmt.Errorf("a peer says %q: %w", line, err)
		}
		if r.life, err = wire.ParseLife(life); err != nil {
			return b, err
		}
		b.here.Connect(addr)
		if err := b.until(func(e agent.Event) (bool, error) {
			up, ok := e.(agent.PeerUp)
			return ok && up.Hello.Life == r.life, nil
		}); err != nil {
			return b, err
		}
		// A notice comes back only when the peer has granted, too.
		b.here.Notify(r.life, []byte("ready?"))
		if err := b.until(func(e agent.Event) (bool, error) { _, ok := e.(agent.Notice); return ok, nil }); err != nil {
			return b, err
		}
	}
	return b, nil
}

const patience = 2 * time.Minute

// until takes events until one is awaited. The end of a peer is an error.
func (b *bed) until(awaited func(agent.Event) (bool, error)) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case e := <-b.here.Events():
			switch e := e.(type) {
			case agent.PeerLost:
				return fmt.Errorf("%s: %w", b.name, e.Err)
			case agent.ConnectFailed:
				return fmt.Errorf("%s: %w", b.name, e.Err)
			}
			if ok, err := awaited(e); ok || err != nil {
				return err
			}
		case <-timeout.C:
			return fmt.Errorf("%s: nothing comes any more", b.name)
		}
	}
}

func (b *bed) close() error {
	var errs []error
	if b.here != nil {
		errs = append(errs, b.here.close())
	}
	for _, p := range b.peers {
		errs = append(errs, p.In.Close(), p.Wait())
	}
	return errors.Join(errs...)
}

// list is the memory in blocks, the same list each time.
func (b *bed) list(total, block int) agent.List {
	if b.lists[block] == nil {
		l := make(agent.List, total/block)
		for i := range l {
			l[i] = agent.Desc{Offset: uint64(i * block), Length: uint64(block)}
		}
		b.lists[block] = l
	}
	return b.lists[block]
}

func permutation(n int, rnd *rand.Rand) []int32 {
	p := make([]int32, n)
	for i, v := range rnd.Perm(n) {
		p[i] = int32(v)
	}
	return p
}

// move gives the transfers of one round to the agent, one a peer.
func (b *bed) move(o Options, op string, block int, rnd *rand.Rand) []agent.Transfer {
	l := b.list(o.Total, block)
	ts := make([]agent.Transfer, len(b.peers))
	for i, p := range b.peers {
		b.ids++
		ts[i] = agent.Transfer{
			ID: b.ids, Peer: p.life, Epoch: 1,
			Local: l, LocalIdx: permutation(len(l), rnd), Remote: l, RemoteIdx: permutation(len(l), rnd),
		}
	}
	return ts
}

func (b *bed) start(op string, ts []agent.Transfer) {
	for _, t := range ts {
		if op == opWrite {
			b.here.Write(t)
		} else {
			b.here.Read(t)
		}
	}
}

// Run measures.
func Run(o Options) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	rep := newReport(o)
	var beds []*bed
	defer func() {
		for _, b := range beds {
			_ = b.close() // what was measured stands
		}
	}()
	for _, name := range o.Agents {
		b, err := makeBed(o, name)
		if err != nil {
			return rep, err
		}
		beds = append(beds, b)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for round := -1; round < o.Rounds; round++ {
		for _, block := range o.Blocks {
			for _, op := range o.Ops {
				for _, b := range beds {
					o.Say(fmt.Sprintf("round %d of %d, %s, %d bytes, %s", round+1, o.Rounds, op, block, b.name))
					s, err := b.round(o, op, block, rnd)
					if err != nil {
						return rep, err
					}
					if round >= 0 {
						rep.add(b.name, op, block, s)
					}
				}
			}
		}
	}
	if o.Pings > 0 {
		for _, b := range beds {
			o.Say("small messages beside bulk, " + b.name)
			idle, busy, err := b.latency(o, rnd)
			if err != nil {
				return rep, err
			}
			rep.ping(b.name, idle, busy)
		}
	}
	return rep, nil
}

// sample is one round of one agent.
type sample struct {
	wall      float64 // seconds until the last Done
	processor float64 // of us and the peers together, seconds
}

func (b *bed) round(o Options, op string, block int, rnd *rand.Rand) (sample, error) {
	ts := b.move(o, op, block, rnd)
	before, err := b.processor()
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	b.start(op, ts)
	if err := b.dones(len(ts)); err != nil {
		return sample{}, err
	}
	wall := time.Since(began).Seconds()
	after, err := b.processor()
	if err == nil && op == opWrite {
		err = b.compare(o, block, ts)
	}
	return sample{wall, after - before}, err
}

func (b *bed) dones(n int) error {
	return b.until(func(e agent.Event) (bool, error) {
		if d, ok := e.(agent.Done); ok {
			n--
			return n == 0, d.Err
		}
		return false, nil
	})
}

func (b *bed) processor() (float64, error) {
	sum := Processor()
	for _, p := range b.peers {
		line, err := p.ask("cpu")
		if err != nil {
			return 0, err
		}
		var s float64
		if _, err := fmt.Sscan(line, &s); err != nil {
			return 0, fmt.Errorf("a peer says %q: %w", line, err)
		}
		sum += s
	}
	return sum, nil
}

// compare asks each peer for the sum of its memory, which must be that of our blocks where the
// transfer put them.
func (b *bed) compare(o Options, block int, ts []agent.Transfer) error {
	mem, want := b.here.memory.Bytes(), make([]byte, o.Total)
	for i, t := range ts {
		for j := range t.LocalIdx {
			from, to := int(t.LocalIdx[j])*block, int(t.RemoteIdx[j])*block
			copy(want[to:to+block], mem[from:from+block])
		}
		line, err := b.peers[i].ask("sum")
		if err != nil {
			return err
		}
		if sum := fmt.Sprint(crc32.ChecksumIEEE(want)); line != sum {
			return fmt.Errorf("%s: the peer's memory has the sum %s, want %s: %w", b.name, line, sum, io.ErrUnexpectedEOF)
		}
	}
	return nil
}
