// Package choose is a transfer agent made of several: a base that reaches every peer, and faster
// ones that reach some. With each peer the bytes go by the fastest that both sides have and that
// comes up between them; a mixed pair falls to what both have.
//
// The base shakes hands and carries all notices that go alone. Then each side offers what else it
// has, the side of the lower life connects by one after the other, the fastest first, and tells the
// verdict. The peer is up when that is settled, and lost when any connection in use is lost: all
// of a peer's connections share one fate.
package choose

import (
	"log/slog"

	"kvferry/agent"
)

// Named is an agent and the name by which the other side knows its kind.
type Named struct {
	Name  string
	Agent agent.Agent
}

// Options of an agent. The agents are started and closed by it, and not used otherwise.
type Options struct {
	// Base must be given. Its address is the whole agent's.
	Base Named
	// Fast are the others, the fastest first.
	Fast []Named
	// Log gets an event a line: slog.Default().
	Log *slog.Logger
}
