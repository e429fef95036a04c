package fault_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/wire"
)

// inner is an agent whose events the test sends by hand.
type inner struct {
	agent.Agent
	events chan agent.Event
	writes chan agent.Transfer
}

func (i *inner) Events() <-chan agent.Event  { return i.events }
func (i *inner) Write(t agent.Transfer)      { i.writes <- t }
func (i *inner) Close(context.Context) error { close(i.events); return nil }

// A transfer that is passed on just when its peer is lost is ended by the inner agent only
// after PeerLost. The caller still sees Done first, and what came after PeerLost after it.
func TestPeerLostWaitsForDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &inner{events: make(chan agent.Event, 10), writes: make(chan agent.Transfer, 10)}
		a := fault.New(in, fault.Options{})
		peer := wire.Life{7}
		in.events <- agent.PeerUp{Hello: wire.Hello{Life: peer}}
		next[agent.PeerUp](t, a)
		a.Write(agent.Transfer{ID: 3, Peer: peer})
		<-in.writes
		in.events <- agent.PeerLost{Peer: peer, Err: errors.New("gone")}
		in.events <- agent.PeerUp{Hello: wire.Hello{Life: peer}}
		synctest.Wait()
		in.events <- agent.Done{ID: 3, Err: &agent.Error{Op: "write", Peer: peer, Cause: agent.ErrUnknownPeer}}
		if d := next[agent.Done](t, a); !errors.Is(d.Err, agent.ErrPeerLost) {
			t.Error(d.Err)
		}
		next[agent.PeerLost](t, a)
		next[agent.PeerUp](t, a)
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for range a.Events() {
		}
	})
}
