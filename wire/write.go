package wire

import "fmt"

// Write is one part of a one-sided write. The bytes of its ranges follow, in order and
// without anything between them, and then the notice.
type Write struct {
	// Transfer is the sender's number for the whole write.
	Transfer uint64
	// Part counts the write's frames from 0; Last marks the last of them.
	Part uint32
	Last bool
	// Epoch is the receive epoch whose grant covers the ranges.
	Epoch  uint64
	Ranges []Range
	// HasNotice says that the peer is to get a notice of Notice bytes, which may be 0. Only
	// the last part has one.
	HasNotice bool
	Notice    uint32
	Sum       Sum32
}

// Append encodes the write's header.
func (w Write) Append(b []byte) []byte {
	e := enc{b}
	e.u64(w.Transfer)
	e.u32(w.Part)
	e.bool(w.Last)
	e.u64(w.Epoch)
	e.ranges(w.Ranges)
	e.bool(w.HasNotice)
	e.u32(w.Notice)
	e.sum(w.Sum)
	return e.b
}

// DecodeWrite decodes what Append encoded.
func DecodeWrite(b []byte) (Write, error) {
	var w Write
	err := w.Decode(b)
	return w, err
}

// Decode is DecodeWrite over an old header, whose list of ranges it uses again.
func (w *Write) Decode(b []byte) error {
	d := dec{b: b}
	*w = Write{
		Transfer: d.u64(), Part: d.u32(), Last: d.bool(), Epoch: d.u64(), Ranges: d.ranges(w.Ranges),
		HasNotice: d.bool(), Notice: d.u32(), Sum: d.sum(),
	}
	switch {
	case d.err != nil:
	case w.Notice > MaxNotice:
		d.fail(fmt.Errorf("wire: a notice of %d bytes is longer than %d", w.Notice, MaxNotice))
	case w.HasNotice && !w.Last:
		d.fail(fmt.Errorf("wire: part %d of a write has a notice and is not its last", w.Part))
	case !w.HasNotice && w.Notice > 0:
		d.fail(fmt.Errorf("wire: %d bytes of notice where there is none", w.Notice))
	}
	return d.end()
}
