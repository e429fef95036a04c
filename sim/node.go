package sim

import (
	"encoding/binary"
	"fmt"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// node is a place where an engine runs, under one name and address for the whole run. Its
// processes come and go.
type node struct {
	w     *world
	index int
	name  string
	role  engine.Role
	lives int
	proc  *proc // nil while it is down
	procs []*proc
}

// proc is one life of a node: its engine, its memory, its end of the agent.
type proc struct {
	w    *world
	node *node
	life wire.Life
	dead bool
	eng  *engine.Engine
	mem  *memory

	inbox   []news
	standby int64 // the loop stands still until then
	// known are the links whose PeerUp the engine took last.
	known  []*end
	tickAt int64
	offset int64 // what its clock showed when the run began
	drift  int64 // ppm

	pass     *pass
	passFail bool // the next pass fails

	grants []*grant // open, in order
	// owners says for every epoch that was ever granted which request it was for.
	owners map[uint64]int
	links  []*link
	held   []engine.Held // what the engine holds, after the last step

	submitted, finished map[int]int // by request

	slots   []int64 // the lease slots, as peers read them
	turns   []keptTurn
	sets    map[wire.Life]*leased // what peers claim
	beat    *wire.Heartbeat       // that the engine is being told of
	reading []*fetch
}

func (w *world) makeNodes() {
	c := w.plan.Cluster
	roles := map[byte]engine.Role{'p': engine.Prefill, 'd': engine.Decode, 'a': engine.Aggregated}
	for i, name := range c.names() {
		w.nodes = append(w.nodes, &node{w: w, index: i, name: name, role: roles[name[0]]})
	}
	for range w.nodes {
		row := make([]*path, len(w.nodes))
		w.paths = append(w.paths, row)
	}
	for i := range w.nodes {
		for j := range i {
			p := &path{slow: 1}
			w.paths[i][j], w.paths[j][i] = p, p
		}
	}
}

func (w *world) nodeNamed(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (w *world) nodeOf(life wire.Life) *node {
	return w.nodes[binary.LittleEndian.Uint32(life[:])]
}

// start gives a node a process.
func (w *world) start(n *node) {
	n.lives++
	p := &proc{
		w: w, node: n, tickAt: never,
		owners: map[uint64]int{}, submitted: map[int]int{}, finished: map[int]int{},
		slots: make([]int64, w.plan.Cluster.Slots), sets: map[wire.Life]*leased{},
	}
	binary.LittleEndian.PutUint32(p.life[:], uint32(n.index))
	binary.LittleEndian.PutUint32(p.life[4:], uint32(n.lives))
	binary.LittleEndian.PutUint64(p.life[8:], mix2(w.plan.Seed, uint64(n.index)<<32|uint64(n.lives)))
	p.setClock()
	cfg := w.plan.Cluster.engine(n.role, w.layout)
	cfg.Life, cfg.Draw = p.life, p.drawNonce()
	shards, err := w.layout.Shards(cfg.Parallel)
	if err == nil {
		p.mem = newMemory(p, w.layout, shards, cfg.Blocks)
		cfg.Freed, cfg.Watch = p.mem.freed, w.watch
		p.eng, err = engine.New(cfg)
	}
	if err != nil {
		panic(err) // Validate has tried it
	}
	n.proc = p
	n.procs = append(n.procs, p)
	w.note("start", n.index, n.lives, 0)
	if n.lives > 1 {
		w.logf("%s starts again", n.name)
	}
}

// engine is the configuration of an engine.
func (c Cluster) engine(role engine.Role, l kvcache.Layout) engine.Config {
	cfg := engine.Config{
		Role: role, Layout: l, Parallel: c.parallel(role),
		MaxSeqs: c.Seqs, MaxWaiting: c.Queue, Chunked: c.Chunk > 0, ChunkTokens: c.Chunk,
		Pipelined: c.Pipelined && role == engine.Prefill, PartBytes: c.Parts, Checksum: c.Checksum, Fencing: c.Fencing,
		Grow: c.PrefillGrow, Reuse: c.PrefillReuse,
		Timeout: c.Timeout, Context: 1 << 16, Ends: []int32{endToken},
		Text:          func(int32) []byte { return []byte{'x'} },
		LeaseDuration: c.lease(), Slots: c.Slots, TurnTTL: c.TurnTTL, VerifyLeases: !c.Unverified,
		Recompute: c.Recompute, RecomputeThreshold: c.Threshold, ReadOnly: c.ReadOnly,
		Draw: func() uint64 { return 1 },
	}
	blocks := c.PrefillBlocks
	if role == engine.Decode {
		blocks, cfg.Grow, cfg.Reuse = c.DecodeBlocks, c.DecodeGrow, c.DecodeReuse
	}
	for range c.Windows {
		cfg.Blocks = append(cfg.Blocks, blocks)
	}
	return cfg
}

func (c Cluster) parallel(role engine.Role) kvcache.Parallel {
	if role == engine.Decode {
		return kvcache.Parallel{Tensor: max(1, c.DecodeTensor), Pipeline: max(1, c.DecodeStages)}
	}
	return kvcache.Parallel{Tensor: max(1, c.PrefillTensor), Pipeline: max(1, c.PrefillStages)}
}

// news is an event for the engine, with the link that it tells of if it is PeerUp or PeerLost.
type news struct {
	ev   engine.Event
	link *end
}

// deliver gives the engine an event, after all that came before.
func (p *proc) deliver(ev engine.Event) { p.deliverOf(nil, ev) }

func (p *proc) deliverOf(link *end, ev engine.Event) {
	if p.dead {
		return
	}
	p.inbox = append(p.inbox, news{ev, link})
	p.loop()
}

// loop is the engine's loop: it takes events in order unless it stands still.
func (p *proc) loop() {
	for len(p.inbox) > 0 && !p.dead && p.w.bad == nil && p.standby <= p.w.now {
		ev := p.inbox[0].ev
		p.know(p.inbox[0])
		p.inbox = p.inbox[1:]
		p.w.note(fmt.Sprintf("%T", ev), p.node.index, 0, 0)
		if m, ok := ev.(engine.Message); ok {
			p.beat, _ = m.Msg.(*wire.Heartbeat)
		}
		p.forgetSet(ev)
		p.eng.Step(p.clock(), ev)
		p.follow()
		p.beat = nil
	}
}

// tick runs the engine's timer.
func (p *proc) tick(at int64) {
	if p.dead || p.tickAt != at {
		return
	}
	if p.standby > p.w.now {
		p.wake(p.standby)
		return
	}
	p.tickAt = never
	p.w.note("tick", p.node.index, 0, 0)
	p.eng.Tick(p.clock())
	p.follow()
}

// follow checks what a step did and carries out what it asks for.
func (p *proc) follow() {
	outputs := p.eng.Outputs()
	p.setSlots(outputs)
	held := p.eng.Held()
	p.audit(held)
	p.observe(held)
	for _, o := range outputs {
		if p.w.bad != nil {
			return
		}
		p.carryOut(o)
	}
	if d := p.instant(p.eng.Deadline()); d < p.tickAt {
		p.wake(max(d, p.w.now))
	}
}

// wake sets the loop's one timer.
func (p *proc) wake(at int64) {
	p.tickAt = at
	p.w.after(at-p.w.now, func() { p.tick(at) })
}

func (p *proc) carryOut(o engine.Output) {
	switch o := o.(type) {
	case engine.Compute:
		p.compute(o)
	case engine.Connect:
		p.connect(o.Addr)
	case engine.Copy:
		p.checkCommitted(o)
		p.copyOut(o)
	case engine.Verify:
		p.verify(o)
	case engine.Read:
		p.read(o)
	case engine.ReadSlots:
		p.readSlots(o)
	case engine.SetSlot:
		// done by setSlots
	case engine.Token:
		p.w.tokenOut(p, o)
	case engine.Finish:
		p.w.finishOut(p, o)
	case engine.Record:
		p.w.recordOut(p, o)
	case engine.Noted:
		p.noted(o)
	case transfer.Grant:
		p.grant(o)
	case transfer.Revoke:
		p.revoke(o.Epoch)
	case transfer.Drop:
		p.drop(o)
	case transfer.Notify:
		p.notify(o.Peer, o.Msg)
	default:
		panic(fmt.Sprintf("sim: the engine gave %T", o))
	}
}

// crash ends a process. Where its machine lives on, its peers are told.
func (p *proc) crash(host bool) {
	w := p.w
	p.dead = true
	p.node.proc = nil
	w.note("crash", p.node.index, 0, 0)
	w.logf("%s dies", p.node.name)
	for _, l := range p.links {
		l.abandon(p, host)
	}
	w.legsLost(p)
}

// stall stops the engine's loop for a while.
func (p *proc) stall(d int64) {
	p.standby = max(p.standby, p.w.now+d)
	p.w.logf("%s stands still for %v", p.node.name, dur(d))
	p.w.after(d, func() {
		if !p.dead {
			p.loop()
		}
	})
}
