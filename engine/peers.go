package engine

import (
	"maps"
	"slices"

	"kvferry/kvcache"
	"kvferry/transfer"
	"kvferry/wire"
)

// peers is who is connected, by life; an address leads to the life that answered there last.
type peers struct {
	up    map[wire.Life]PeerUp
	addrs map[string]wire.Life
	// asked are the addresses whose Connect is not answered yet.
	asked map[string]bool
}

// shortestLease is the shortest kv_lease_duration that there is, in nanoseconds. A peer that says
// less gets no more heartbeats for it.
const shortestLease = int64(1e6)

func newPeers() peers {
	return peers{up: map[wire.Life]PeerUp{}, addrs: map[string]wire.Life{}, asked: map[string]bool{}}
}

// connect asks for a connection unless there is one or one is asked for.
func (e *Engine) connect(addr string) {
	if _, up := e.peers.addrs[addr]; up || e.peers.asked[addr] {
		return
	}
	e.peers.asked[addr] = true
	e.emit(Connect{Addr: addr})
}

func (e *Engine) peerUp(now int64, ev PeerUp) {
	if ev.Parallel == (kvcache.Parallel{}) {
		ev.Parallel = kvcache.Parallel{Tensor: 1, Pipeline: 1}
	}
	if _, up := e.peers.up[ev.Peer]; !up {
		e.pull.renew.Up(now, ev.Peer, max(ev.LeaseDuration, shortestLease))
	}
	e.peers.up[ev.Peer] = ev
	if ev.Addr == "" {
		return
	}
	delete(e.peers.asked, ev.Addr)
	e.peers.addrs[ev.Addr] = ev.Peer
	e.told(ev.Addr, ev.Peer)
	for _, s := range e.recv.all() {
		switch {
		case s.addr() != ev.Addr:
		case s.recv != nil:
			e.stepReceive(now, s, e.writersOf(ev.Peer))
		case s.pull != nil:
			e.pullReady(now, s, ev.Peer)
		}
	}
	for _, s := range slices.Clone(e.queue) {
		if s.waitsFor(ev.Addr) {
			e.reached(now, s, ev.Peer)
		}
	}
}

func (e *Engine) connectFailed(now int64, ev ConnectFailed) {
	delete(e.peers.asked, ev.Addr)
	delete(e.pull.tell, ev.Addr)
	for _, s := range e.recv.all() {
		switch {
		case s.addr() != ev.Addr:
		case s.recv != nil:
			e.stepReceive(now, s, transfer.Unreachable{Err: ev.Err})
		case s.pull != nil:
			e.stepPull(now, s, transfer.Unreachable{Err: ev.Err})
		}
	}
	if slices.ContainsFunc(e.queue, func(s *seq) bool { return s.waitsFor(ev.Addr) }) {
		e.retryLater(now, ev.Addr)
	}
}

func (e *Engine) peerLost(now int64, ev PeerLost) {
	if _, up := e.peers.up[ev.Peer]; !up {
		return
	}
	delete(e.peers.up, ev.Peer)
	maps.DeleteFunc(e.peers.addrs, func(_ string, life wire.Life) bool { return life == ev.Peer })
	gone := transfer.PeerGone{Peer: ev.Peer, Err: ev.Err}
	for _, s := range e.sendsInOrder() {
		e.stepSend(now, s, gone)
	}
	for _, s := range e.recv.all() {
		switch {
		case s.recv != nil:
			e.stepReceive(now, s, gone)
		case s.pull != nil && s.pull.Peer() == (wire.Life{}) && s.holder == ev.Peer:
			e.stepPull(now, s, transfer.Unreachable{Err: ev.Err}) // it waited for the holder's clock
		case s.pull != nil:
			e.stepPull(now, s, gone)
		}
	}
	e.unpark(ev.Peer)
	e.lend.leases.Lost(ev.Peer)
	e.unclaimAll(now, ev.Peer)
	delete(e.turns.clocks, ev.Peer)
}

// unclaimAll forgets the claims on an engine that is gone. Requests that still queue for it
// find it again, if it lives (LEASE-09).
func (e *Engine) unclaimAll(now int64, gone wire.Life) {
	e.pull.renew.Lost(gone)
	for key, s := range e.pull.claims {
		if key.peer == gone {
			s.claimed = false
			delete(e.pull.claims, key)
		}
	}
	for _, s := range e.queue {
		if s.holder == gone && s.waitsFor(s.addr()) {
			e.connect(s.addr())
		}
	}
}
