package wire

// Announce tells a reader that registered for reading of one slice: its blocks are computed and
// stay until the lease ends (LEASE-25).
type Announce struct {
	Request string
	// Task and Epoch are the receiver's, echoed from Register.
	Task  uint32
	Epoch uint64
	// Slot and Nonce prove that the blocks were still the request's.
	Slot  uint32
	Nonce uint64
	// Slice is the slice's index, from 0. Last marks the final one.
	Slice uint32
	Last  bool
	// Start and End are the prompt's blocks that the slice covers.
	Start, End uint32
	// Blocks has for each layer group the sender's physical blocks of what is due of
	// [Start,End), as the receiver's registration and the layout say.
	Blocks [][]int32
	// Aux is set in the last announcement.
	Aux *Aux
}

// Append encodes the message.
func (a *Announce) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindAnnounce))
	e.string(a.Request)
	e.u32(a.Task)
	e.u64(a.Epoch)
	e.u32(a.Slot)
	e.u64(a.Nonce)
	e.u32(a.Slice)
	e.bool(a.Last)
	e.u32(a.Start)
	e.u32(a.End)
	e.blocks(a.Blocks)
	e.aux(a.Aux)
	return e.b
}

func (a *Announce) decode(d *dec) {
	a.Request = d.string()
	a.Task = d.u32()
	a.Epoch = d.u64()
	a.Slot = d.u32()
	a.Nonce = d.u64()
	a.Slice = d.u32()
	a.Last = d.bool()
	a.Start = d.u32()
	a.End = d.u32()
	a.Blocks = d.blocks()
	a.Aux = d.aux()
}
