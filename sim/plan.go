package sim

import (
	"fmt"

	"kvferry/engine"
	"kvferry/transfer"
)

// Plan is one run, written out. Times are nanoseconds of the virtual clock, from 0.
type Plan struct {
	// Seed decides the jitter of every message and block, and the prompts' tokens.
	Seed     uint64
	Cluster  Cluster
	Requests []Request
	Faults   []Fault
}

// Cluster is the machines of a run. Its nodes are named p0, p1, ... (prefill), d0, ...
// (decode) and a0, ... (aggregated), and are all configured alike.
type Cluster struct {
	Prefill, Decode, Whole int
	BlockTokens            int
	// Windows has one entry a layer group: its window in tokens, 0 for full attention, below
	// zero for a recurrent state. Layers is how many layers each group has, Heads how many KV
	// heads.
	Windows       []int
	Layers, Heads int
	// PrefillTensor and PrefillStages cut prefill (and aggregated) engines into ranks, the
	// others decode engines; 0 is 1.
	PrefillTensor, PrefillStages int
	DecodeTensor, DecodeStages   int
	// PrefillBlocks and DecodeBlocks are the size of each layer group's pool. Grow takes blocks
	// as they are needed, Reuse keeps a prefix index.
	PrefillBlocks, DecodeBlocks int
	PrefillGrow, DecodeGrow     bool
	PrefillReuse, DecodeReuse   bool
	// Checksum: what arrives is compared with what was sent.
	Checksum bool
	// Seqs is the number of compute slots, Queue the length of the queue for them.
	Seqs, Queue int
	// Chunk is how many prompt tokens a pass may compute; 0: prompts are not cut.
	Chunk     int
	Pipelined bool
	// Parts is from how many bytes on layers of a chunk leave before it is computed; 0: never.
	Parts   int
	Fencing bool
	// Timeout is kv_transfer_timeout; a silent connection is lost after DeadAfter.
	Timeout, DeadAfter int64
	// Latency is the least a message takes, Jitter what may come on top.
	Latency, Jitter int64
	// Lanes is the number of bulk connections of a link, BlockTime how long a block takes on
	// one of them.
	Lanes     int
	BlockTime int64
	// Pass is how long a forward pass takes, and PassToken what each token adds.
	Pass, PassToken int64
	// Lease is kv_lease_duration (0: Timeout), Slots kv_lease_slots, TurnTTL
	// decoder_kv_blocks_ttl.
	Lease, TurnTTL int64
	Slots          int
	// Unverified: kv_lease_verification is false. Recompute: kv_load_failure_policy is
	// recompute. Threshold is kv_recompute_threshold.
	Unverified, Recompute bool
	Threshold             int
	// ReadOnly: the agents cannot write, so decode engines read what is announced to them.
	ReadOnly bool
	// Drift is how far the processes' clocks run from the true one, in parts per million, at
	// most; with it each also begins at an instant of its own, hours apart. 0: all are alike.
	Drift int
}

// Request is one request of a run; requests are named r1, r2, ... in order.
type Request struct {
	At int64
	// Skew is how much later the decode leg comes than the prefill leg; below zero it is
	// the prefill leg that comes later.
	Skew        int64
	Prompt, Max int
	// The prompt begins with the first Alike tokens of the prompt of request Like (from 1), if
	// that is an earlier one.
	Like, Alike int
	IgnoreEOS   bool
	// Prefill and Decode are the legs' nodes. Without Prefill the request runs whole on the
	// Decode node.
	Prefill, Decode string
	// Hold: the router posts the decode leg when the prefill leg has given a handle
	// (context_first).
	Hold bool
	// Twin is another decode node that gets the same handle at the same time, Second one that
	// gets it when the first has failed or died. Newer: the twin is a newer attempt.
	Twin, Second string
	Newer        bool
	// After is the request (from 1) whose conversation this one goes on with: it begins with
	// that one's prompt and answer, or the first Alike tokens of them, and Prompt counts only
	// what is new; it comes At after the end of that one.
	After int
}

// Kind is what a fault does.
type Kind string

// The faults. Message faults strike the message that sets them off.
const (
	Cancel    Kind = "cancel"    // the client hangs up, or one leg is aborted
	Crash     Kind = "crash"     // a node dies, and comes back as another life after For
	Stall     Kind = "stall"     // a node's engine loop stands still for For
	Freeze    Kind = "freeze"    // a node's network stands still for For
	Stop      Kind = "stop"      // a node's process stands still for For, as both of these
	Partition Kind = "partition" // nothing passes between Node and Peer for For
	Drop      Kind = "drop"      // the connection between Node and Peer breaks
	Slow      Kind = "slow"      // blocks between Node and Peer take By times as long for For
	PassFail  Kind = "passfail"  // the forward pass fails
	Delay     Kind = "delay"     // message: it, and all behind it, come For later
	Duplicate Kind = "duplicate" // message: it comes again after For
	Lose      Kind = "lose"      // message: it never comes
	Corrupt   Kind = "corrupt"   // message: a broken peer sent it with a field wrong
	Garble    Kind = "garble"    // block: a byte of it changes on its way
	Mute      Kind = "mute"      // heartbeats and their answers between Node and Peer are lost for For
	Lag       Kind = "lag"       // they come Lateness later, for For, and what is behind them before
	Echo      Kind = "echo"      // they come again Lateness later, for For
)

// Fault is one thing that goes wrong.
type Fault struct {
	Kind Kind
	// At sets the fault off at an instant, where On is empty. Otherwise it is set off when
	// request Request passes the point On for the Nth time, and strikes After later.
	At      int64
	Request int // from 1
	On      Point
	Nth     int
	After   int64

	Node, Peer string
	For        int64
	// Leg is which leg a Cancel aborts: prefill, decode, or neither when the client hangs up;
	// Victim is whose, if not Request's.
	Leg    string
	Victim int
	// Host: the whole machine of a crashed node is gone, so that nobody tells its peers.
	Host bool
	By   int
	// Lateness is how much later a Lag or an Echo has heartbeats come.
	Lateness int64
	// Field is what a Corrupt changes.
	Field string
}

// Point is something that every request passes, and that can set a fault off.
type Point string

// The points, in about the order in which a request passes them.
const (
	AtSubmit   Point = "submit"   // a leg reached its engine
	AtRegister Point = "register" // message: the receive is posted
	AtPass     Point = "pass"     // a forward pass begins that the request has a part in
	AtComputed Point = "computed" // and ends
	AtCopy     Point = "copy"     // a slice is given to the agent
	AtRead     Point = "read"     // a block is read from the sender's memory
	AtLand     Point = "land"     // a block begins to land in the receiver's
	AtResult   Point = "result"   // message: a slice's notice is delivered
	AtAcked    Point = "acked"    // a copy is acknowledged
	AtRevoke   Point = "revoke"   // the epoch is to be revoked
	AtRevoked  Point = "revoked"  // and is
	AtWithdraw Point = "withdraw" // message: the registration is taken back
	AtProgress Point = "progress" // message: the sender is alive
	AtEnding   Point = "ending"   // message: the sender tells of the end
	AtToken    Point = "token"    // a token is drawn
	AtFinish   Point = "finish"   // a leg gave its terminal answer
	AtPull     Point = "pull"     // a reader begins to read a block
	AtSlots    Point = "slots"    // a reader looks at the request's lease slot

	AtComplete Point = "complete" // message: a reader is done with the lease
	AtAnnounce Point = "announce" // message: a slice can be read
	// These are about no request, and nothing can be hung on them.
	AtHeartbeat Point = "heartbeat"
	AtAnswered  Point = "answered"
	AtClock     Point = "clock"
)

// isMessage says whether the point is the sending of a message.
func (p Point) isMessage() bool {
	switch p {
	case AtRegister, AtResult, AtWithdraw, AtProgress, AtEnding, AtComplete, AtAnnounce:
		return true
	}
	return false
}

// isInline says whether the fault strikes what sets it off, as it passes.
func (k Kind) isInline() bool {
	switch k {
	case Delay, Duplicate, Lose, Corrupt, Garble:
		return true
	}
	return false
}

// quiet says whether the plan lets every message and block through in good time, so that no
// time-out can be right.
func (p Plan) quiet() bool {
	for _, f := range p.Faults {
		switch f.Kind {
		case Cancel, Drop, PassFail, Duplicate:
		case Crash:
			if f.Host {
				return false
			}
		default:
			return false
		}
	}
	for _, r := range p.Requests {
		if max(r.Skew, -r.Skew) > p.Cluster.Timeout/2 {
			return false
		}
	}
	return p.Cluster.Fencing && p.ample() && p.wire() < p.Cluster.Timeout/2
}

// wire is how long the links need for all blocks of all requests, one after another.
func (p Plan) wire() int64 {
	n := 0
	for _, r := range p.Requests {
		n += ceilDiv(p.prompt(r), p.Cluster.BlockTokens) * len(p.Cluster.Windows)
		if r.Twin != "" {
			n *= 2
		}
	}
	ranks := max(1, p.Cluster.PrefillTensor) * max(1, p.Cluster.PrefillStages)
	return int64(n*ranks) * p.Cluster.BlockTime
}

// ample says whether the pools and slots hold all requests at once, so that none waits for
// another.
func (p Plan) ample() bool {
	c := p.Cluster
	blocks := 0
	for _, r := range p.Requests {
		n := ceilDiv(p.prompt(r)+r.Max, c.BlockTokens) + 1 // one for a hit inside a block
		if r.Twin != "" || r.Second != "" {
			n *= 2
		}
		blocks += n
	}
	if (p.holds() || c.ReadOnly) && (c.Slots < 2*len(p.Requests) || c.lease() < ampleLease*(c.Latency+c.Jitter)) {
		return false
	}
	return blocks <= min(c.PrefillBlocks, c.DecodeBlocks) && len(p.Requests) <= min(c.Seqs, c.Queue)
}

// horizon is an instant by which everything must have ended: when the last request and fault
// have come and every disturbance passed, each request may still have to wait for the
// time-outs of all others.
func (p Plan) horizon() int64 {
	end := int64(0)
	for _, r := range p.Requests {
		end += r.At + max(r.Skew, -r.Skew)
	}
	for _, f := range p.Faults {
		end = max(end, f.At)
	}
	for _, f := range p.Faults {
		end += f.After + f.For
	}
	return end + int64(len(p.Requests)+2)*4*(p.Cluster.Timeout+p.Cluster.DeadAfter+p.Cluster.Lease) + p.Cluster.TurnTTL + retrySpan
}

// Validate reports the first thing in a plan that cannot be run.
func (p Plan) Validate() error {
	c := p.Cluster
	if c.Prefill < 0 || c.Decode < 0 || c.Whole < 0 || c.Prefill+c.Decode+c.Whole > 64 {
		return fmt.Errorf("cluster: want 0 to 64 nodes")
	}
	if c.BlockTokens < 1 || c.Layers < 1 || c.Heads < 1 || len(c.Windows) == 0 || c.Lanes < 1 || c.Latency < 1 || c.Timeout < 1 || c.DeadAfter < 1 {
		return fmt.Errorf("cluster: tpb, layers, heads, windows, lanes, latency, timeout and dead must be above 0")
	}
	l := c.layout()
	if _, err := transfer.NewMapping(l, c.parallel(engine.Prefill), c.parallel(engine.Decode)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if _, err := engine.New(c.engine(engine.Prefill, l)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if _, err := engine.New(c.engine(engine.Decode, l)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for i, r := range p.Requests {
		if r.Prompt < 1 || r.Max < 1 {
			return fmt.Errorf("request r%d: prompt and max must be above 0", i+1)
		}
		for j, name := range []string{r.Decode, r.Prefill, r.Twin, r.Second} {
			if !c.has(name) && (j == 0 || name != "") {
				return fmt.Errorf("request r%d: no such node in the cluster", i+1)
			}
		}
		if r.After < 0 || r.After > i {
			return fmt.Errorf("request r%d: want an earlier one to go on from", i+1)
		}
		if (r.Twin != "" || r.Second != "") && !r.Hold || r.Hold && r.Prefill == "" || r.Twin == r.Decode {
			return fmt.Errorf("request r%d: only a held prompt has a second reader, on another node", i+1)
		}
	}
	for i, f := range p.Faults {
		if err := p.checkFault(f); err != nil {
			return fmt.Errorf("fault %d (%s): %w", i+1, f.Kind, err)
		}
	}
	return nil
}

func (p Plan) checkFault(f Fault) error {
	c := p.Cluster
	switch f.Kind {
	case Partition, Drop, Slow, Mute, Lag, Echo:
		if !c.has(f.Node) || !c.has(f.Peer) || f.Node == f.Peer {
			return fmt.Errorf("want two nodes")
		}
	case Crash, Stall, Freeze, Stop, PassFail:
		if !c.has(f.Node) {
			return fmt.Errorf("want a node")
		}
	case Delay, Duplicate, Lose, Corrupt:
		if !f.On.isMessage() {
			return fmt.Errorf("want a message to strike")
		}
	case Cancel:
		if f.Request < 1 || f.Victim < 0 {
			return fmt.Errorf("want a request")
		}
	case Garble:
		if f.On != AtRead {
			return fmt.Errorf("want a block that is read")
		}
	default:
		return fmt.Errorf("no such fault")
	}
	if f.On == "" && f.At < 0 || f.On != "" && (f.Request < 1 || f.Nth < 1) {
		return fmt.Errorf("want an instant, or a request's point and its count")
	}
	if n := max(f.Request, f.Victim); n > len(p.Requests) {
		return fmt.Errorf("no request r%d", n)
	}
	return nil
}

// has says whether the cluster has a node of that name.
func (c Cluster) has(name string) bool {
	for _, n := range c.names() {
		if n == name {
			return true
		}
	}
	return false
}

// names lists the cluster's nodes, prefill first.
func (c Cluster) names() []string {
	var out []string
	for _, kind := range []struct {
		prefix string
		n      int
	}{{"p", c.Prefill}, {"d", c.Decode}, {"a", c.Whole}} {
		for i := range kind.n {
			out = append(out, fmt.Sprintf("%s%d", kind.prefix, i))
		}
	}
	return out
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
