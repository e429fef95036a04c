package tcp_test

import (
	"log/slog"
	"testing"

	"kvferry/agent"
	"kvferry/agent/agenttest"
	"kvferry/agent/fault"
	"kvferry/agent/tcp"
)

func newAgent(bulk int) agenttest.Make {
	return func(t testing.TB, o agenttest.Options) agent.Agent {
		opt := tcp.Options{
			Listen: o.Addr, Log: slog.New(slog.DiscardHandler), RevokeGrace: o.RevokeGrace,
			FrameBytes: o.FrameBytes, Bulk: bulk,
		}
		if o.Gate != nil {
			opt.Conn = o.Gate.Bulk
		}
		return tcp.New(opt)
	}
}

func TestConformance(t *testing.T) { agenttest.Run(t, newAgent(1)) }

// Several connections compete for one gate, so who passes it is chance.
func TestConformanceOfManyBulkConnections(t *testing.T) {
	agenttest.RunOnHeap(t, newAgent(3), "short write is not held up")
}

func TestConformanceUnderTheDecorator(t *testing.T) {
	agenttest.RunOnHeap(t, func(t testing.TB, o agenttest.Options) agent.Agent {
		return fault.New(newAgent(1)(t, o), fault.Options{})
	}, "short write is not held up") // the decorator's link is one for all
}
