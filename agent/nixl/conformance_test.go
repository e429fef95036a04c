//go:build linux && (amd64 || arm64) && nixl

package nixl_test

import (
	"log/slog"
	"os"
	"testing"

	"kvferry/agent"
	"kvferry/agent/agenttest"
	"kvferry/agent/nixl"
	"kvferry/agent/tcp"
)

// newAgent makes an agent, or skips where NIXL is not installed.
func newAgent(t testing.TB, o agenttest.Options) agent.Agent {
	if os.Getenv(nixl.Variable) == "" {
		t.Skip(nixl.Variable + " is not set")
	}
	log := slog.New(slog.DiscardHandler)
	a, err := nixl.New(nixl.Options{
		Control: tcp.New(tcp.Options{Listen: o.Addr, Log: log}), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// NIXL has no fence, and lets nobody hold its bytes up: what the suite says of either is not for it.
func TestConformance(t *testing.T) {
	agenttest.RunMapped(t, newAgent,
		"connect from both ends", // a hundred times, each with two of NIXL's agents: half a minute
		"capabilities", "refused", "revoke when idle", "revoke between frames", "revoke lets a frame finish",
		"revoke ends a slow frame", "notice waits for the last byte", "notify passes bulk", "short write is not held up",
		"peer lost in a write", "peer lost in a read", "close")
}
