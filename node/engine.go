package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/chat"
	"kvferry/telemetry"
	"kvferry/wire"
)

// Engine is one engine's process: its machine in a loop, its agent, and HTTP before them.
type Engine struct {
	cfg      EngineConfig
	life     wire.Life
	run      runner.Runner
	chat     *chat.Template // nil if the model has none, or one that gives chatErr
	chatErr  error
	pools    []*memory.Memory // by rank and layer group; nil where a rank holds nothing
	memory   [][]byte         // of pools
	slots    *slots
	agent    agent.Agent
	loop     *loop
	metrics  *telemetry.Engine
	listener net.Listener
	server   *http.Server
	entry    sync.Mutex // held to let a request in, and to let no more in
	draining atomic.Bool
	active   sync.WaitGroup // requests that are being answered
	began    time.Time
	stopLoop context.CancelFunc
}

// StartEngine loads the model, maps the pools and begins to serve. What it opened it closes
// again when it fails.
func StartEngine(cfg EngineConfig) (e *Engine, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e = &Engine{cfg: cfg, began: time.Now()}
	defer func() {
		if err != nil {
			e.close(context.Background())
			e = nil
		}
	}()
	if _, err := rand.Read(e.life[:]); err != nil {
		return e, fmt.Errorf("life: %w", err)
	}
	if e.run, err = openRunner(cfg); err != nil {
		return e, err
	}
	e.openChat()
	blocks := cfg.blocksFor(e.run.Layout(), e.run.Model().Context)
	if err := e.mapPools(blocks); err != nil {
		return e, err
	}
	pools := e.describePools(blocks)
	if err := e.mapSlots(blocks); err != nil {
		return e, err
	}
	if err := e.startAgent(pools); err != nil {
		return e, err
	}
	if err := e.startLoop(blocks, pools); err != nil {
		return e, err
	}
	if e.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return e, fmt.Errorf("listen: %w", err)
	}
	e.warnIfOpen()
	e.server = newServer(e.handler(), cfg.Log)
	go serveHTTP(e.server, e.listener, cfg.Log)
	return e, nil
}

// mapPools maps one pool a layer group for each rank, outside the heap, and hands them to the
// runner. A rank that holds nothing of a group has none.
func (e *Engine) mapPools(blocks []int) error {
	layout := e.run.Layout()
	shards, err := layout.Shards(e.cfg.parallel())
	if err != nil {
		return err
	}
	for rank, s := range shards {
		for g, n := range blocks {
			size := n * s.BlockBytes(g)
			if size == 0 {
				e.pools, e.memory = append(e.pools, nil), append(e.memory, nil)
				continue
			}
			m, err := memory.Map(fmt.Sprintf("kvferry-rank-%d-group-%d", rank, g), size)
			if err != nil {
				return fmt.Errorf("rank %d: pool of layer group %d: %w", rank, g, err)
			}
			e.pools, e.memory = append(e.pools, m), append(e.memory, m.Bytes())
		}
	}
	return e.run.Attach(e.memory)
}

// describePools says of each pool what a peer must know; its region comes with the agent.
func (e *Engine) describePools(blocks []int) []wire.Pool {
	pools := make([]wire.Pool, len(e.memory))
	for i, mem := range e.memory {
		if n := blocks[i%len(blocks)]; mem != nil {
			pools[i] = wire.Pool{Blocks: uint32(n), BlockBytes: uint64(len(mem) / n)}
		}
	}
	return pools
}

// mapSlots maps the lease slots: as many as there are requests that could hold blocks, if nothing
// else is said (LEASE-19). An aggregated engine lends to nobody.
func (e *Engine) mapSlots(blocks []int) (err error) {
	if e.cfg.Role == engine.Aggregated {
		return nil
	}
	n := e.cfg.LeaseSlots
	if n == 0 {
		n = slices.Max(blocks) + e.cfg.MaxSeqs
	}
	e.slots, err = newSlots(e.cfg.parallel().Ranks(), n)
	return err
}

// registerSlots makes the lease slots readable. Without verification an engine goes on without
// them (LEASE-18).
func (e *Engine) registerSlots() error {
	err := e.slots.register(e.agent)
	switch {
	case err == nil:
		return nil
	case e.cfg.LeaseVerification:
		return fmt.Errorf("kv_lease_verification: the lease slots cannot be registered: %w", err)
	}
	e.cfg.Log.Warn("lease slots cannot be registered; nobody will be able to verify what it reads here", "err", err)
	e.slots.count = 0
	return nil
}

// startAgent registers the pools and begins to accept peers. An aggregated engine has no agent.
func (e *Engine) startAgent(pools []wire.Pool) error {
	if e.cfg.Role == engine.Aggregated {
		return nil
	}
	var err error
	if e.agent, err = openAgent(e.cfg); err != nil {
		return err
	}
	if e.cfg.WrapAgent != nil {
		e.agent = e.cfg.WrapAgent(e.agent)
	}
	for i, mem := range e.memory {
		if mem == nil {
			continue
		}
		region, err := e.agent.Register(mem)
		if err != nil {
			return fmt.Errorf("register pool %d: %w", i, err)
		}
		pools[i].Region = uint32(region)
	}
	if err := e.registerSlots(); err != nil {
		return err
	}
	return e.agent.Start(wire.Hello{
		Life: e.life, Role: e.cfg.Role.String(), Identity: identity(e.run),
		Geometry: wire.Geometry{
			TensorParallel: uint16(e.cfg.TensorParallel), PipelineParallel: uint16(e.cfg.PipelineParallel), Pools: pools,
		},
		Slots: e.slots.describe(int64(e.cfg.LeaseDuration)),
	})
}

// identity is what must be equal on both sides.
func identity(r runner.Runner) wire.Identity {
	l := r.Layout()
	id := wire.Identity{
		Version: wire.Version, Model: r.Model().Hash, DType: l.DType.String(),
		BlockTokens: uint32(l.BlockTokens), KVHeads: uint32(l.KVHeads), HeadDim: uint32(l.HeadDim),
	}
	for _, g := range l.Groups {
		w := wire.Group{Window: uint32(g.Window)}
		for _, layer := range g.Layers {
			w.Layers = append(w.Layers, uint16(layer))
		}
		w.State = uint32(g.StateBytes)
		id.Groups = append(id.Groups, w)
	}
	return id
}

func (e *Engine) startLoop(blocks []int, pools []wire.Pool) error {
	model := e.run.Model()
	lists := newLists(e.run.Layout(), e.cfg.parallel(), pools, e.memory)
	var freed func(int, kvcache.BlockID)
	if e.cfg.PoisonFreed {
		freed = lists.poison
	}
	machine, err := engine.New(engine.Config{
		Role: e.cfg.Role, Layout: e.run.Layout(), Parallel: e.cfg.parallel(), Blocks: blocks,
		Grow: e.cfg.KVManager == GrowManager, Reuse: e.cfg.BlockReuse, Salt: model.Hash, Freed: freed,
		Checksum: e.cfg.Checksum,
		MaxSeqs:  e.cfg.MaxSeqs, MaxWaiting: e.cfg.MaxWaiting,
		Chunked: e.cfg.ChunkedPrefill, ChunkTokens: e.cfg.ChunkTokens, Pipelined: e.cfg.Pipelined, PartBytes: e.cfg.PartBytes,
		Timeout: int64(e.cfg.TransferTimeout), Context: model.Context, Ends: model.Ends,
		Text:          e.run.Tokenizer().Bytes,
		Fencing:       e.agent == nil || e.agent.Capabilities().Fencing,
		ReadOnly:      e.agent != nil && !e.agent.Capabilities().OneSidedWrite,
		LeaseDuration: int64(e.cfg.LeaseDuration), Slots: e.slotCount(), Draw: randomBits,
		VerifyLeases: e.cfg.LeaseVerification, Recompute: e.cfg.LoadFailurePolicy == RecomputePolicy,
		RecomputeThreshold: e.cfg.RecomputeThreshold, TurnTTL: int64(e.cfg.TurnTTL), Life: e.life,
	})
	if err != nil {
		return err
	}
	e.metrics = telemetry.NewEngine(e.cfg.Role.String(), e.gauges)
	e.loop = &loop{
		machine: machine, run: e.run, agent: e.agent, lists: lists,
		slots: e.slots, reads: map[uint64]*reading{},
		metrics: e.metrics, observe: e.cfg.Observe, log: e.cfg.Log, began: time.Now(),
		commands: make(chan func(int64)), passes: make(chan engine.Compute, 1),
		results: make(chan engine.Computed), written: newWritten(), answers: map[string]*answer{}, stopped: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stopLoop = stop
	go e.loop.serve(ctx)
	return nil
}

func (e *Engine) gauges() telemetry.Gauges {
	c, peers, err := e.loop.counts()
	if err != nil {
		return telemetry.Gauges{}
	}
	return telemetry.Gauges{
		Blocks: c.Blocks, Free: c.Free, Running: c.Running, Waiting: c.Waiting,
		Send: c.Send, Receive: c.Receive, Parked: c.Parked, Peers: peers,
		Leases: c.Leases, Turns: c.Turns,
	}
}

func (e *Engine) slotCount() int {
	if e.slots == nil {
		return 0
	}
	return e.slots.count
}

// randomBits are for nonces.
func randomBits() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Addr is the HTTP address.
func (e *Engine) Addr() string { return e.listener.Addr().String() }

// AgentAddr is where the transfer agent listens; empty in an aggregated engine.
func (e *Engine) AgentAddr() string {
	if e.agent == nil {
		return ""
	}
	return e.agent.Addr()
}

// Counts tells what the engine holds.
func (e *Engine) Counts() (engine.Counts, error) {
	c, _, err := e.loop.counts()
	return c, err
}

// enter counts a request in, unless the engine stops. Nobody may come in once Stop waits for
// those that are in.
func (e *Engine) enter() bool {
	e.entry.Lock()
	defer e.entry.Unlock()
	if e.draining.Load() {
		return false
	}
	e.active.Add(1)
	return true
}

// Stop refuses new requests, lets the running ones end for at most the drain time-out or
// until ctx ends, and closes everything.
func (e *Engine) Stop(ctx context.Context) {
	e.entry.Lock()
	e.draining.Store(true)
	e.entry.Unlock()
	ctx, cancel := context.WithTimeout(ctx, e.cfg.DrainTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		e.active.Wait()
		e.awaitReaders(ctx)
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		e.cfg.Log.Warn("drain ended with requests running")
	}
	e.close(ctx)
}

// awaitReaders waits until what was computed here for other engines is read, or given up: its
// requests were answered with handles.
func (e *Engine) awaitReaders(ctx context.Context) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		c, err := e.Counts()
		if err != nil || c.Offers == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// drainPoll is how often an engine that drains looks for readers.
const drainPoll = 20 * time.Millisecond

// close ends what was started, the last first. Memory is unmapped only when nobody can touch
// it any more.
func (e *Engine) close(ctx context.Context) {
	if e.server != nil {
		closeServer(ctx, e.server)
	} else if e.listener != nil {
		e.listener.Close()
	}
	if e.stopLoop != nil {
		e.stopLoop()
		<-e.loop.stopped
		e.loop.computed.Wait()
	}
	if e.agent != nil {
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := e.agent.Close(closing); err != nil {
			e.cfg.Log.Error("agent did not close; its memory stays mapped", "err", err)
			return
		}
	}
	if e.run != nil {
		e.run.Close()
	}
	if e.slots != nil {
		e.slots.close()
	}
	for _, m := range e.pools {
		if m != nil {
			m.Close()
		}
	}
}

// closeTimeout is how long the agent may take to let go of the memory.
const closeTimeout = 5 * time.Second
