package wire

import (
	"encoding/hex"
	"fmt"
)

// Version is the protocol's: both sides must speak the same.
const Version = 3

// Life names one process from start to end, drawn at random when it starts. A process that
// restarts under the same name and address is another life.
type Life [16]byte

func (l Life) String() string { return hex.EncodeToString(l[:]) }

// ParseLife reads what String gave.
func ParseLife(s string) (Life, error) {
	var l Life
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(l) {
		return l, fmt.Errorf("wire: %q is no life: want %d hex digits", s, 2*len(l))
	}
	copy(l[:], b)
	return l, nil
}

// Group is a layer group as the handshake names it.
type Group struct {
	Window uint32
	Layers []uint16
	State  uint32 // bytes of a recurrent layer's state; 0 for attention
}

// Identity must be equal on both sides, or KV would mean different things to them.
type Identity struct {
	Version     uint16
	Model       string // hash of the weights
	DType       string
	BlockTokens uint32
	KVHeads     uint32 // of the whole model
	HeadDim     uint32
	Groups      []Group
}

// Pool is one rank's memory of one layer group.
type Pool struct {
	Region     uint32
	Blocks     uint32
	BlockBytes uint64
}

// Geometry may differ between the sides; the transfer plan maps one onto the other.
type Geometry struct {
	TensorParallel   uint16
	PipelineParallel uint16
	// Pools has one entry a layer group, of rank 0, then of rank 1, and so on.
	Pools []Pool
}

// Slots describes the lease slots of an engine: Ranks arrays of Count int64 each, one behind
// the other in one region, so that rank r's slot s is at byte 8*(r*Count+s) (LEASE-13). Count 0
// is an engine that grants no lease which could be verified.
type Slots struct {
	Region uint32
	Count  uint32
	// Duration is kv_lease_duration in nanoseconds; readers derive their interval from it
	// (LEASE-07).
	Duration int64
}

// Hello follows the proofs on a control connection, in both directions.
type Hello struct {
	Life     Life
	Role     string // prefill, decode
	Identity Identity
	Geometry Geometry
	Slots    Slots
}

// MismatchError names the first field of the identity in which a peer differs.
type MismatchError struct {
	Field        string
	Ours, Theirs string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("peers cannot exchange KV: %s is %s here and %s there", e.Field, e.Ours, e.Theirs)
}

// Check compares a peer's identity with ours. // case: 07
func (i Identity) Check(theirs Identity) error {
	for _, f := range []struct {
		name         string
		ours, theirs any
	}{
		{"protocol version", i.Version, theirs.Version},
		{"model", i.Model, theirs.Model},
		{"kv dtype", i.DType, theirs.DType},
		{"block tokens", i.BlockTokens, theirs.BlockTokens},
		{"kv heads", i.KVHeads, theirs.KVHeads},
		{"head dim", i.HeadDim, theirs.HeadDim},
		{"layer groups", fmt.Sprint(i.Groups), fmt.Sprint(theirs.Groups)},
	} {
		switch {
		case f.ours == f.theirs:
		case f.name == "model":
			return modelMismatch(i.Model, theirs.Model)
		default:
			return &MismatchError{Field: f.name, Ours: fmt.Sprint(f.ours), Theirs: fmt.Sprint(f.theirs)}
		}
	}
	return nil
}

// Append encodes the hello.
func (h Hello) Append(b []byte) []byte {
	e := enc{b}
	// The version comes first and alone, so that it can be read whatever follows.
	e.u16(h.Identity.Version)
	e.b = append(e.b, h.Life[:]...)
	e.string(h.Role)
	e.string(h.Identity.Model)
	e.string(h.Identity.DType)
	e.u32(h.Identity.BlockTokens)
	e.u32(h.Identity.KVHeads)
	e.u32(h.Identity.HeadDim)
	e.u32(uint32(len(h.Identity.Groups)))
	for _, g := range h.Identity.Groups {
		e.u32(g.Window)
		e.u32(g.State)
		e.u32(uint32(len(g.Layers)))
		for _, l := range g.Layers {
			e.u16(l)
		}
	}
	e.u16(h.Geometry.TensorParallel)
	e.u16(h.Geometry.PipelineParallel)
	e.u32(uint32(len(h.Geometry.Pools)))
	for _, p := range h.Geometry.Pools {
		e.u32(p.Region)
		e.u32(p.Blocks)
		e.u64(p.BlockBytes)
	}
	e.u32(h.Slots.Region)
	e.u32(h.Slots.Count)
	e.u64(uint64(h.Slots.Duration))
	return e.b
}

// DecodeHello decodes what Append encoded. Another protocol version is a MismatchError.
func DecodeHello(b []byte) (Hello, error) {
	d := dec{b: b}
	var h Hello
	h.Identity.Version = d.u16()
	if d.err == nil && h.Identity.Version != Version {
		return h, &MismatchError{
			Field: "protocol version", Ours: fmt.Sprint(Version), Theirs: fmt.Sprint(h.Identity.Version),
		}
	}
	copy(h.Life[:], d.take(len(h.Life)))
	h.Role = d.string()
	h.Identity.Model = d.string()
	h.Identity.DType = d.string()
	h.Identity.BlockTokens = d.u32()
	h.Identity.KVHeads = d.u32()
	h.Identity.HeadDim = d.u32()
	for range d.count(12) {
		g := Group{Window: d.u32(), State: d.u32()}
		for range d.count(2) {
			g.Layers = append(g.Layers, d.u16())
		}
		h.Identity.Groups = append(h.Identity.Groups, g)
	}
	h.Geometry.TensorParallel = d.u16()
	h.Geometry.PipelineParallel = d.u16()
	for range d.count(16) {
		h.Geometry.Pools = append(h.Geometry.Pools, Pool{Region: d.u32(), Blocks: d.u32(), BlockBytes: d.u64()})
	}
	h.Slots = Slots{Region: d.u32(), Count: d.u32(), Duration: int64(d.u64())}
	return h, d.end()
}
