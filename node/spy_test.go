package node_test

import (
	"sync"
	"testing"

	"kvferry/agent"
	"kvferry/node"
	"kvferry/wire"
)

// spy is an agent that remembers what its engine asked of it.
type spy struct {
	agent.Agent
	mu     sync.Mutex
	writes []agent.Transfer
	sent   []wire.Message
	grants [][]agent.Desc
}

// on puts the spy around an engine's agent.
func (s *spy) on(cfg *node.EngineConfig) {
	cfg.WrapAgent = func(inner agent.Agent) agent.Agent {
		s.Agent = inner
		return s
	}
}

func (s *spy) Write(t agent.Transfer) {
	s.mu.Lock()
	s.writes = append(s.writes, t)
	s.mu.Unlock()
	s.Agent.Write(t)
}

func (s *spy) Notify(peer wire.Life, payload []byte) {
	msg, err := wire.DecodeMessage(payload)
	if err != nil {
		panic(err) // an engine's own message
	}
	s.mu.Lock()
	s.sent = append(s.sent, msg)
	s.mu.Unlock()
	s.Agent.Notify(peer, payload)
}

func (s *spy) Grant(epoch uint64, peer wire.Life, ranges []agent.Desc) {
	s.mu.Lock()
	s.grants = append(s.grants, ranges)
	s.mu.Unlock()
	s.Agent.Grant(epoch, peer, ranges)
}

// saw gives what the spy has remembered, and begins anew.
func (s *spy) saw() (writes []agent.Transfer, sent []wire.Message, grants [][]agent.Desc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, sent, grants = s.writes, s.sent, s.grants
	s.writes, s.sent, s.grants = nil, nil, nil
	return writes, sent, grants
}

// oneRegister is the one registration among messages; it fails if there is another message.
func oneRegister(t testing.TB, sent []wire.Message) *wire.Register {
	t.Helper()
	if len(sent) != 1 {
		t.Fatalf("the decode engine sent %d messages: %+v", len(sent), sent)
	}
	reg, ok := sent[0].(*wire.Register)
	if !ok {
		t.Fatalf("the decode engine sent %#v", sent[0])
	}
	return reg
}
