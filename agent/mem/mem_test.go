package mem_test

import (
	"log/slog"
	"testing"

	"kvferry/agent"
	"kvferry/agent/agenttest"
	"kvferry/agent/mem"
)

// newMake makes agents of one network.
func newMake() agenttest.Make {
	network := mem.NewNetwork()
	return func(t testing.TB, o agenttest.Options) agent.Agent {
		opt := mem.Options{
			Network: network, Addr: o.Addr, Log: slog.New(slog.DiscardHandler),
			RevokeGrace: o.RevokeGrace, FrameBytes: o.FrameBytes,
		}
		if o.Gate != nil {
			opt.Pace = o.Gate.Take
		}
		return mem.New(opt)
	}
}

func TestConformance(t *testing.T) { agenttest.Run(t, newMake()) }

func TestConformanceInBubble(t *testing.T) { agenttest.RunInBubble(t, newMake) }
