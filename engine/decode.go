package engine

import (
	"fmt"

	"kvferry/transfer"
	"kvferry/wire"
)

// receiveSide is what an engine keeps of the transfers that come in.
type receiveSide struct {
	// tasks are the receives by index; an index is used again once its receive has ended.
	tasks []*seq
	open  int
	// epoch is the last receive epoch; none is ever used twice in a life.
	epoch  uint64
	epochs map[uint64]*seq
}

// byTask is the receive at a task index that a peer named, range-checked (PIPE-12).
func (r *receiveSide) byTask(task uint32) *seq {
	if uint64(task) >= uint64(len(r.tasks)) {
		return nil
	}
	return r.tasks[task]
}

func (r *receiveSide) byEpoch(epoch uint64) *seq { return r.epochs[epoch] }

// all is every open receive, by index.
func (r *receiveSide) all() []*seq {
	var out []*seq
	for _, s := range r.tasks {
		if s != nil {
			out = append(out, s)
		}
	}
	return out
}

func (r *receiveSide) add(s *seq) (task int, epoch uint64) {
	r.epoch++
	if r.epochs == nil {
		r.epochs = map[uint64]*seq{}
	}
	r.epochs[r.epoch] = s
	r.open++
	for i, t := range r.tasks {
		if t == nil {
			r.tasks[i] = s
			return i, r.epoch
		}
	}
	r.tasks = append(r.tasks, s)
	return len(r.tasks) - 1, r.epoch
}

func (r *receiveSide) remove(s *seq, epoch uint64) {
	r.tasks[s.task] = nil
	delete(r.epochs, epoch)
	r.open--
}

// openReceive posts the one receive of an admitted request.
func (e *Engine) openReceive(now int64, s *seq) {
	e.unclaim(now, s) // the registration says the same from here on
	task, epoch := e.recv.add(s)
	s.task, s.epoch = task, epoch
	s.recv = transfer.NewReceive(transfer.ReceiveConfig{
		Request: s.req.ID, Task: uint32(task), Epoch: epoch,
		Layout: e.cfg.Layout, PromptLen: len(s.req.Tokens), TokenHash: wire.TokenHash(s.req.Tokens),
		DstStart: s.hold.Cached, Tables: s.tables(), Checksum: e.cfg.Checksum, Fencing: e.cfg.Fencing, Timeout: e.cfg.Timeout,
	}, now)
	e.watched("receive", s.req.ID, "", nil, s.recv.Phase())
	e.timers.set(s)
	if life, up := e.peers.addrs[s.req.Peer]; up {
		e.stepReceive(now, s, e.writersOf(life))
	} else {
		e.connect(s.req.Peer)
	}
}

func (e *Engine) stepReceive(now int64, s *seq, ev transfer.ReceiveEvent) {
	from := s.recv.Phase()
	s.recv.Step(now, ev)
	e.watched("receive", s.req.ID, from, ev, s.recv.Phase())
	e.receiveOutputs(now, s)
	e.timers.set(s)
}

func (e *Engine) receiveOutputs(now int64, s *seq) {
	for _, o := range s.recv.Outputs() {
		switch o := o.(type) {
		case transfer.Received:
			e.recv.remove(s, s.epoch)
			e.unclaim(now, s)
			s.stats = o.Stats
			s.state, s.done, s.cached = decoding, len(s.fill), int(o.Aux.Cached)
			// Whole and right only now (PIPE-36).
			e.pools.Commit(s.hold, s.req.Tokens)
			e.draw(s, Sampled{TokenLogprob: o.Aux.First, Top: o.Aux.Top})
		case transfer.Failed:
			e.unclaim(now, s)
			e.finish(s, "", o.Err)
			e.leave(s)
		case transfer.Release:
			e.recv.remove(s, s.epoch)
			e.release(s)
		case transfer.Record:
			e.emit(Record{Request: s.req.ID, Record: o})
		case transfer.Verify:
			e.emit(Verify{Epoch: s.epoch, Verify: o})
		case transfer.Grant, transfer.Revoke, transfer.Notify:
			e.emit(o)
		default:
			panic(fmt.Sprintf("engine: a receive session gave %T", o))
		}
	}
}

// writersOf is the peer of a receive with the number of ranks that will send.
func (e *Engine) writersOf(peer wire.Life) transfer.PeerUp {
	return transfer.PeerUp{Peer: peer, Writers: e.peers.up[peer].Parallel.Ranks()}
}
