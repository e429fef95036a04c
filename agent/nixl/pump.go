//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"fmt"

	"kvferry/agent"
	"kvferry/wire"
)

// voice is what came of a peer over the control agent, as far as it is not whole.
type voice struct {
	notice, card []byte
}

// pump turns the control agent's events into ours, until it is closed.
func (a *Agent) pump() {
	voices := map[wire.Life]*voice{}
	for e := range a.o.Control.Events() {
		switch e := e.(type) {
		case agent.PeerUp:
			voices[e.Hello.Life] = &voice{notice: []byte{}}
			a.owner.call(func() { a.owner.greet(e) })
		case agent.PeerLost:
			delete(voices, e.Peer)
			a.owner.call(func() { a.owner.lost(e) })
		case agent.ConnectFailed:
			a.events.Push(e)
		case agent.Notice:
			if v := voices[e.Peer]; v != nil {
				a.hear(v, e)
			}
		}
	}
	a.owner.end()
	a.events.Close()
	close(a.finished)
}

// hear takes a payload apart. The owner gives notices on, so that none comes before its PeerUp.
func (a *Agent) hear(v *voice, n agent.Notice) {
	if len(n.Payload) == 0 {
		a.o.Control.Drop(n.Peer, fmt.Errorf("nixl: %w", errCard))
		return
	}
	b := n.Payload[1:]
	switch n.Payload[0] {
	case saysMore:
		v.notice = append(v.notice, b...)
	case saysNotice:
		whole := append(v.notice, b...)
		v.notice = []byte{} // an empty notice is one
		a.owner.call(func() { a.owner.notice(n.Peer, whole) })
	case saysBegin:
		v.card = append(v.card, b...)
	case saysCard:
		c, err := decodeCard(append(v.card, b...))
		v.card = nil
		a.owner.call(func() { a.owner.deal(n.Peer, c, err) })
	default:
		a.o.Control.Drop(n.Peer, fmt.Errorf("nixl: the peer says %d, which is nothing", n.Payload[0]))
	}
	if len(v.notice) > wire.MaxNotice || len(v.card) > maxCard {
		a.o.Control.Drop(n.Peer, fmt.Errorf("nixl: the peer says too much"))
	}
}
