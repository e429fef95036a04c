package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// codec is one body's decoder, as tests need it: what it gives is a Body again.
type codec struct {
	frame  Frame
	decode func([]byte) (Body, error)
	draw   func(*rapid.T) Body
}

func codecOf[B Body](f Frame, decode func([]byte) (B, error), draw func(*rapid.T) B) codec {
	return codec{
		frame:  f,
		decode: func(b []byte) (Body, error) { return decode(b) },
		draw:   func(t *rapid.T) Body { return draw(t) },
	}
}

var codecs = map[string]codec{
	"hello":  codecOf(FrameHello, DecodeHello, drawHello),
	"refuse": codecOf(FrameRefuse, DecodeRefuse, drawRefuse),
	"claim": codecOf(FrameClaim, DecodeClaim, func(t *rapid.T) Claim {
		c := Claim{Bulk: rapid.Uint16Range(1, MaxBulkConnections).Draw(t, "bulk")}
		drawBytes(t, c.Nonce[:])
		return c
	}),
	"join": codecOf(FrameJoin, DecodeJoin, func(t *rapid.T) Join {
		j := Join{Index: rapid.Uint16().Draw(t, "index")}
		drawBytes(t, j.Nonce[:])
		return j
	}),
	"challenge": codecOf(FrameChallenge, DecodeChallenge, func(t *rapid.T) Challenge {
		c := Challenge{Token: rapid.Bool().Draw(t, "token")}
		drawBytes(t, c.Nonce[:])
		return c
	}),
	"proof": codecOf(FrameProof, DecodeProof, func(t *rapid.T) Proof {
		var p Proof
		drawBytes(t, p.Life[:])
		drawBytes(t, p.MAC[:])
		return p
	}),
	"ping": codecOf(FramePing, DecodePing, func(t *rapid.T) Ping { return Ping{Seq: rapid.Uint64().Draw(t, "seq")} }),
	"bye":  codecOf(FrameBye, DecodeBye, func(t *rapid.T) Bye { return Bye{Reason: rapid.String().Draw(t, "reason")} }),
	"ack": codecOf(FrameAck, DecodeAck, func(t *rapid.T) Ack {
		a := Ack{Transfer: rapid.Uint64().Draw(t, "transfer"), Refused: rapid.Bool().Draw(t, "refused")}
		if a.Refused {
			a.Reason = rapid.String().Draw(t, "reason")
		}
		return a
	}),
	"read": codecOf(FrameRead, DecodeReadRequest, func(t *rapid.T) ReadRequest {
		return ReadRequest{
			Transfer: rapid.Uint64().Draw(t, "transfer"), Part: rapid.Uint32().Draw(t, "part"),
			Last: rapid.Bool().Draw(t, "last"), Ranges: drawRanges(t),
		}
	}),
	"write": codecOf(FrameWrite, DecodeWrite, drawWrite),
	"data": codecOf(FrameData, DecodeReadData, func(t *rapid.T) ReadData {
		r := ReadData{
			Transfer: rapid.Uint64().Draw(t, "transfer"), Part: rapid.Uint32().Draw(t, "part"),
			Last: rapid.Bool().Draw(t, "last"), Refused: rapid.Bool().Draw(t, "refused"),
		}
		if r.Refused {
			r.Reason = rapid.String().Draw(t, "reason")
		} else {
			r.Bytes = rapid.Uint32Range(0, MaxBulk).Draw(t, "bytes")
			r.Sum = drawSum(t)
		}
		return r
	}),
}

func drawBytes(t *rapid.T, b []byte) {
	copy(b, rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, "bytes"))
}

func drawRefuse(t *rapid.T) Refuse {
	s := rapid.String()
	return Refuse{
		Code:  rapid.SampledFrom([]RefuseCode{RefuseMismatch, RefuseBusy, RefuseOther}).Draw(t, "code"),
		Field: s.Draw(t, "field"), Ours: s.Draw(t, "ours"), Theirs: s.Draw(t, "theirs"), Reason: s.Draw(t, "reason"),
	}
}

func drawRanges(t *rapid.T) []Range {
	var rs []Range
	for range rapid.IntRange(0, 5).Draw(t, "ranges") {
		rs = append(rs, Range{
			Region: rapid.Uint32().Draw(t, "region"), Offset: rapid.Uint64().Draw(t, "offset"),
			Length: rapid.Uint64Range(0, MaxBulk/5).Draw(t, "length"),
		})
	}
	return rs
}

func drawSum(t *rapid.T) (s Sum32) {
	if rapid.Bool().Draw(t, "summed") {
		s.Add(rapid.SliceOf(rapid.Byte()).Draw(t, "of"))
	}
	return s
}

func drawWrite(t *rapid.T) Write {
	w := Write{
		Transfer: rapid.Uint64().Draw(t, "transfer"), Part: rapid.Uint32().Draw(t, "part"),
		Last: rapid.Bool().Draw(t, "last"), Epoch: rapid.Uint64().Draw(t, "epoch"), Ranges: drawRanges(t), Sum: drawSum(t),
	}
	if w.Last && rapid.Bool().Draw(t, "has notice") {
		w.HasNotice, w.Notice = true, rapid.Uint32Range(0, MaxNotice).Draw(t, "notice")
	}
	return w
}

// Every body comes back as it was; cut anywhere, or with a byte more, it is an error; and it
// fits the frame that it is for.
func TestFramesRoundTrip(t *testing.T) {
	for name, c := range codecs {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				body := c.draw(t)
				whole := Pack(c.frame, body)
				f, n, err := ParseHeader(whole)
				if err != nil || f != c.frame || n != len(whole)-FrameHeader {
					t.Fatalf("header: %v, %d bytes, %v", f, n, err)
				}
				b := whole[FrameHeader:]
				got, err := c.decode(b)
				if err != nil || !reflect.DeepEqual(got, body) {
					t.Fatalf("%+v came back as %+v, %v", body, got, err)
				}
				cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
				if got, err := c.decode(b[:cut]); err == nil {
					t.Fatalf("%d of %d bytes are %+v", cut, len(b), got)
				}
				if got, err := c.decode(append(b, 0)); err == nil {
					t.Fatalf("with a byte more it is %+v", got)
				}
			})
		})
	}
}

// fuzz feeds a decoder: it must not panic, and what it takes must encode to the same bytes.
func fuzz(f *testing.F, name string) {
	c := codecs[name]
	f.Add([]byte{})
	for i := range 5 {
		f.Add(c.example(i).Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := c.decode(b)
		if err != nil {
			return
		}
		if again := body.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x decodes to %+v, which is %x", b, body, again)
		}
	})
}

func (c codec) example(seed int) Body {
	return rapid.Custom(func(t *rapid.T) Body { return c.draw(t) }).Example(seed)
}

func FuzzHello(f *testing.F)       { fuzz(f, "hello") }
func FuzzRefuse(f *testing.F)      { fuzz(f, "refuse") }
func FuzzClaim(f *testing.F)       { fuzz(f, "claim") }
func FuzzJoin(f *testing.F)        { fuzz(f, "join") }
func FuzzChallenge(f *testing.F)   { fuzz(f, "challenge") }
func FuzzProof(f *testing.F)       { fuzz(f, "proof") }
func FuzzPing(f *testing.F)        { fuzz(f, "ping") }
func FuzzBye(f *testing.F)         { fuzz(f, "bye") }
func FuzzAck(f *testing.F)         { fuzz(f, "ack") }
func FuzzReadRequest(f *testing.F) { fuzz(f, "read") }
func FuzzWrite(f *testing.F)       { fuzz(f, "write") }
func FuzzReadData(f *testing.F)    { fuzz(f, "data") }

// FuzzHeader: a header that is taken names a kind and a length within that kind's bound.
func FuzzHeader(f *testing.F) {
	f.Add(Pack(FrameReady, nil))
	f.Add(Pack(FrameNotice, Raw("payload")))
	f.Add([]byte{255, 255, 255, 255, byte(FrameNotice)})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, n, err := ParseHeader(b)
		if err == nil && (!k.known() || n < 0 || n > frames[k].max) {
			t.Errorf("%x is a %v of %d bytes", b, k, n)
		}
	})
}

func TestHeaderRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"short":             {0, 0, 0, 0},
		"kind 0":            {0, 0, 0, 0, 0},
		"an unknown kind":   {0, 0, 0, 0, byte(len(frames))},
		"a long ready":      {1, 0, 0, 0, byte(FrameReady)},
		"a long notice":     {1, 0, 0x80, 0, byte(FrameNotice)},
		"the longest there": {255, 255, 255, 255, byte(FrameWrite)},
		"HTTP":              []byte("GET / HTTP/1.1"),
	} {
		if k, n, err := ParseHeader(b); err == nil {
			t.Errorf("%s: %v of %d bytes", name, k, n)
		}
	}
}

// What is wrong in a frame is refused even where its layout is right.
func TestFramesRefuse(t *testing.T) {
	long := make([]Range, MaxRanges+1)
	for name, c := range map[string]struct {
		codec string
		body  Body
		want  string
	}{
		"no bulk connection":    {"claim", Claim{}, "bulk connections"},
		"many bulk connections": {"claim", Claim{Bulk: MaxBulkConnections + 1}, "bulk connections"},
		"no code":               {"refuse", Refuse{}, "no reason"},
		"unknown code":          {"refuse", Refuse{Code: RefuseOther + 1}, "no reason"},
		"reason of success":     {"ack", Ack{Reason: "why"}, "nothing is refused"},
		"many ranges":           {"write", Write{Ranges: long}, "more than"},
		"many bytes":            {"read", ReadRequest{Ranges: []Range{{Length: MaxBulk}, {Length: 1}}}, "more than"},
		"overflow":              {"read", ReadRequest{Ranges: []Range{{Length: 1}, {Length: 1<<64 - 1}}}, "more than"},
		"early notice":          {"write", Write{HasNotice: true}, "not its last"},
		"stray notice":          {"write", Write{Last: true, Notice: 1}, "there is none"},
		"long notice":           {"write", Write{Last: true, HasNotice: true, Notice: MaxNotice + 1}, "longer than"},
		"a sum of nothing":      {"write", Write{Sum: Sum32{Value: 1}}, "not made"},
		"an answer's likewise":  {"data", ReadData{Sum: Sum32{Value: 1}}, "not made"},
		"long answer":           {"data", ReadData{Bytes: MaxBulk + 1}, "longer than"},
		"refused with bytes":    {"data", ReadData{Bytes: 1, Refused: true}, "given and refused"},
		"given with a reason":   {"data", ReadData{Reason: "why"}, "given and refused"},
		"a long reason":         {"bye", Bye{Reason: strings.Repeat("x", MaxString+1)}, "longer than"},
	} {
		_, err := codecs[c.codec].decode(c.body.Append(nil))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A list that claims to be long and is not there costs nothing.
func TestDecodersAllocateWhatIsThere(t *testing.T) {
	b := Write{}.Append(nil)
	i := 8 + 4 + 1 + 8 // the number of ranges
	copy(b[i:], []byte{255, 255, 255, 255})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := DecodeWrite(b); !errors.Is(err, ErrShort) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestSum(t *testing.T) {
	if n := Sum([]Range{{Length: 3}, {Offset: 9, Length: 4}}); n != 7 {
		t.Error(n)
	}
}

// A refusal is told on the refused side from its own point of view.
func TestRefuseErr(t *testing.T) {
	err := Refuse{Code: RefuseMismatch, Field: "kv dtype", Ours: "f16", Theirs: "f32"}.Err()
	var m *MismatchError
	if !errors.As(err, &m) || *m != (MismatchError{Field: "kv dtype", Ours: "f32", Theirs: "f16"}) {
		t.Error(err)
	}
	if err := (Refuse{Code: RefuseOther, Reason: "no room"}).Err(); !strings.Contains(fmt.Sprint(err), "no room") {
		t.Error(err)
	}
}
