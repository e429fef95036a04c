package engine

import (
	"maps"

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
	e.peers.up[ev.Peer] = ev
	if ev.Addr == "" {
		return
	}
	delete(e.peers.asked, ev.Addr)
	e.peers.addrs[ev.Addr] = ev.Peer
	for _, s := range e.recv.all() {
		if s.req.Peer == ev.Addr {
			e.stepReceive(now, s, e.writersOf(ev.Peer))
		}
	}
}

func (e *Engine) connectFailed(now int64, ev ConnectFailed) {
	delete(e.peers.asked, ev.Addr)
	for _, s := range e.recv.all() {
		if s.req.Peer == ev.Addr {
			e.stepReceive(now, s, transfer.Unreachable{Err: ev.Err})
		}
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
		e.stepReceive(now, s, gone)
	}
	e.unpark(ev.Peer)
}
