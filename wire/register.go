package wire

// Register posts a decode engine's ONE receive for a whole prompt (PIPE-02). The number of
// chunks is not in it, nor the number of blocks: each side derives that from PromptLen.
type Register struct {
	// Request is the ID that the router minted for this attempt.
	Request string
	// Task is the receiver's own index of this receive; results echo it (PIPE-12).
	Task uint32
	// Epoch is the receive epoch under which writes are granted.
	Epoch uint64
	// PromptLen is the prompt's length in tokens, and TokenHash the SHA-256 of its token IDs;
	// the sender compares both with its own before it writes (PIPE-34).
	PromptLen uint32
	TokenHash [32]byte
	// DstStart is the number of prompt tokens that the receiver holds already (PIPE-09).
	DstStart uint32
	// Checksum asks for a checksum in each result (PIPE-33).
	Checksum bool
	// Read: the receiver reads what the sender announces, instead of being written to
	// (LEASE-25). It grants nothing then.
	Read bool
	// Blocks has a resident suffix a layer group (of rank 0, then rank 1, ...): physical
	// blocks whose logical end is the prompt's last block.
	Blocks [][]int32
}

// Append encodes the message.
func (r *Register) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindRegister))
	e.string(r.Request)
	e.u32(r.Task)
	e.u64(r.Epoch)
	e.u32(r.PromptLen)
	e.b = append(e.b, r.TokenHash[:]...)
	e.u32(r.DstStart)
	e.bool(r.Checksum)
	e.bool(r.Read)
	e.blocks(r.Blocks)
	return e.b
}

func (r *Register) decode(d *dec) {
	r.Request = d.string()
	r.Task = d.u32()
	r.Epoch = d.u64()
	r.PromptLen = d.u32()
	copy(r.TokenHash[:], d.take(len(r.TokenHash)))
	r.DstStart = d.u32()
	r.Checksum = d.bool()
	r.Read = d.bool()
	r.Blocks = d.blocks()
}

func (e *enc) blocks(lists [][]int32) {
	e.u32(uint32(len(lists)))
	for _, list := range lists {
		e.u32(uint32(len(list)))
		for _, id := range list {
			e.u32(uint32(id))
		}
	}
}

func (d *dec) blocks() [][]int32 {
	var out [][]int32
	for range d.count(4) {
		n := d.count(4)
		list := make([]int32, 0, n)
		for range n {
			list = append(list, int32(d.u32()))
		}
		out = append(out, list)
	}
	return out
}
