package router

// Role is what an engine does in a pair.
type Role uint8

// The two legs of a request.
const (
	Prefill Role = iota + 1
	Decode
)

func (r Role) String() string {
	switch r {
	case Prefill:
		return "prefill"
	case Decode:
		return "decode"
	}
	return "unknown role"
}

// Report is what an engine says of itself when it is asked whether it can serve.
type Report struct {
	Ready    bool
	Draining bool
	Role     string
	PID      int
	// Life names the engine's process from start to end; another life is another engine.
	Life string
	// Model is the name under which clients ask for the model.
	Model string
	// Agent is where a peer's transfer agent connects to, host:port.
	Agent string
	// Context is the most tokens that a sequence can have on the engine.
	Context int
}

// fault is why an engine that answered so cannot be chosen; empty when it can.
func (r Report) fault(want Role) string {
	switch {
	case r.Role != want.String():
		return "answers as role " + quoted(r.Role) + " where " + want.String() + " is expected"
	case r.Life == "":
		return "reports no life"
	case r.Model == "":
		return "reports no model"
	case want == Prefill && r.Agent == "":
		return "reports no agent address"
	case r.Draining:
		return "is draining"
	case !r.Ready:
		return "is not ready"
	}
	return ""
}

// quoted puts a peer's word in quotes, cut to a length that a log line can bear.
func quoted(s string) string {
	const longest = 32
	if len(s) > longest {
		s = s[:longest] + "..."
	}
	return `"` + s + `"`
}

// Engine is one engine as the pool sees it now.
type Engine struct {
	// Index is its place in the pool, fixed for the pool's life.
	Index int
	Role  Role
	URL   string
	// Ready says that it can be chosen; Why says why not.
	Ready bool
	Why   string
	// Report is the last that it gave, by whichever life.
	Report Report
}

// Pair is the two engines that serve one request. Without a prefill engine its URL is empty.
type Pair struct {
	Prefill, Decode Engine
}
