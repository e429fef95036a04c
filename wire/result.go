package wire

import (
	"fmt"
	"math"
)

// Status is how a slice, or the whole of a send session, ended.
type Status uint8

const (
	// StatusOK: the slice's bytes landed.
	StatusOK Status = iota + 1
	// StatusFailed: the sender could not compute or write; Reason says why.
	StatusFailed
	// StatusCancelled: the sender's request was cancelled, or the receiver withdrew; nothing
	// more will be written.
	StatusCancelled
	// StatusRefused: the registration does not fit the request, by prompt or by geometry.
	StatusRefused
	// StatusGone: the sender ended that request before the registration came.
	StatusGone
)

func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusFailed:
		return "failed"
	case StatusCancelled:
		return "cancelled"
	case StatusRefused:
		return "refused"
	case StatusGone:
		return "gone"
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// TokenLogprob is a token with its natural-log probability.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// Aux is what decode needs beside KV to go on without computing anything again (PIPE-20).
type Aux struct {
	// First is the first output token, with its logprob and the most likely alternatives if
	// the request asked for them.
	First TokenLogprob
	Top   []TokenLogprob
	// Cached is how many of the prompt's tokens the sender did not have to compute.
	Cached uint32
}

// Result tells the receiver of one slice, after the slice's bytes (StatusOK), or of the end of
// everything (any other status, which is terminal).
type Result struct {
	Request string
	// Task is the RECEIVER's index of the receive, echoed from Register (PIPE-12).
	Task  uint32
	Epoch uint64
	// Writer is the sending rank.
	Writer uint16
	// Slice is the writer's slice index, from 0. Last marks the final one, and Count is then
	// the number of slices that this writer sent in all (PIPE-13).
	Slice  uint32
	Last   bool
	Count  uint32
	Status Status
	Reason string
	// Bytes is the size of the writer's part of the slice, which covers the prompt's blocks
	// [Start,End), and Checksum its CRC-32C if the registration asked for it (PIPE-33).
	Bytes      uint64
	Start, End uint32
	Checksum   uint32
	// Aux is set in the last result of one writer.
	Aux *Aux
}

// Append encodes the message.
func (r *Result) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(KindResult))
	e.string(r.Request)
	e.u32(r.Task)
	e.u64(r.Epoch)
	e.u16(r.Writer)
	e.u32(r.Slice)
	e.bool(r.Last)
	e.u32(r.Count)
	e.u8(uint8(r.Status))
	e.string(r.Reason)
	e.u64(r.Bytes)
	e.u32(r.Start)
	e.u32(r.End)
	e.u32(r.Checksum)
	e.aux(r.Aux)
	return e.b
}

func (r *Result) decode(d *dec) {
	r.Request = d.string()
	r.Task = d.u32()
	r.Epoch = d.u64()
	r.Writer = d.u16()
	r.Slice = d.u32()
	r.Last = d.bool()
	r.Count = d.u32()
	r.Status = d.status()
	r.Reason = d.string()
	r.Bytes = d.u64()
	r.Start = d.u32()
	r.End = d.u32()
	r.Checksum = d.u32()
	r.Aux = d.aux()
}

func (e *enc) aux(a *Aux) {
	e.bool(a != nil)
	if a == nil {
		return
	}
	e.tokenLogprob(a.First)
	e.u32(a.Cached)
	e.u32(uint32(len(a.Top)))
	for _, t := range a.Top {
		e.tokenLogprob(t)
	}
}

func (d *dec) aux() *Aux {
	if !d.bool() {
		return nil
	}
	a := &Aux{First: d.tokenLogprob(), Cached: d.u32()}
	for range d.count(8) {
		a.Top = append(a.Top, d.tokenLogprob())
	}
	return a
}

func (d *dec) status() Status {
	s := Status(d.u8())
	if d.err == nil && (s < StatusOK || s > StatusGone) {
		d.fail(fmt.Errorf("wire: unknown %s", s))
	}
	return s
}

func (e *enc) tokenLogprob(t TokenLogprob) {
	e.u32(uint32(t.Token))
	e.u32(math.Float32bits(t.Logprob))
}

func (d *dec) tokenLogprob() TokenLogprob {
	return TokenLogprob{Token: int32(d.u32()), Logprob: math.Float32frombits(d.u32())}
}
