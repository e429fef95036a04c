package wire

import (
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var kinds = []Kind{
	KindRegister, KindResult, KindWithdraw, KindProgress,
	KindHeartbeat, KindHeartbeatAck, KindComplete, KindAnnounce, KindClock,
}

// drawMessage gives any control message that a correct side may send.
func drawMessage(t *rapid.T) Message {
	text := rapid.StringN(0, 40, 200)
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case KindRegister:
		m := &Register{
			Request: text.Draw(t, "request"), Task: rapid.Uint32().Draw(t, "task"), Epoch: rapid.Uint64().Draw(t, "epoch"),
			PromptLen: rapid.Uint32().Draw(t, "prompt"), DstStart: rapid.Uint32().Draw(t, "start"),
			Checksum: rapid.Bool().Draw(t, "checksum"), Read: rapid.Bool().Draw(t, "read"),
		}
		copy(m.TokenHash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		m.Blocks = drawBlocks(t)
		return m
	case KindResult:
		m := &Result{
			Request: text.Draw(t, "request"), Task: rapid.Uint32().Draw(t, "task"), Epoch: rapid.Uint64().Draw(t, "epoch"),
			Writer: rapid.Uint16().Draw(t, "writer"), Slice: rapid.Uint32().Draw(t, "slice"),
			Last: rapid.Bool().Draw(t, "last"), Count: rapid.Uint32().Draw(t, "count"),
			Status: Status(rapid.IntRange(int(StatusOK), int(StatusGone)).Draw(t, "status")),
			Reason: text.Draw(t, "reason"), Bytes: rapid.Uint64().Draw(t, "bytes"),
			Start: rapid.Uint32().Draw(t, "from"), End: rapid.Uint32().Draw(t, "end"), Checksum: rapid.Uint32().Draw(t, "sum"),
		}
		m.Aux = drawAux(t)
		return m
	case KindWithdraw:
		return &Withdraw{Request: text.Draw(t, "request"), Task: rapid.Uint32().Draw(t, "task"), Epoch: rapid.Uint64().Draw(t, "epoch"), Reason: text.Draw(t, "reason")}
	case KindHeartbeat:
		return &Heartbeat{
			Full: rapid.Bool().Draw(t, "full"), Base: rapid.Uint64().Draw(t, "base"), Version: rapid.Uint64().Draw(t, "version"),
			Joined: drawLeases(t), Left: drawLeases(t),
		}
	case KindHeartbeatAck:
		m := &HeartbeatAck{Version: rapid.Uint64().Draw(t, "version"), Resync: rapid.Bool().Draw(t, "resync")}
		for _, l := range drawLeases(t) {
			m.Refused = append(m.Refused, LeaseRefusal{Lease: l, Reason: text.Draw(t, "reason")})
		}
		return m
	case KindComplete:
		return &Complete{
			Lease: drawLease(t), Status: Status(rapid.IntRange(int(StatusOK), int(StatusGone)).Draw(t, "status")),
			Reason: text.Draw(t, "reason"),
		}
	case KindAnnounce:
		return &Announce{
			Request: text.Draw(t, "request"), Task: rapid.Uint32().Draw(t, "task"), Epoch: rapid.Uint64().Draw(t, "epoch"),
			Slot: rapid.Uint32().Draw(t, "slot"), Nonce: rapid.Uint64().Draw(t, "nonce"),
			Slice: rapid.Uint32().Draw(t, "slice"), Last: rapid.Bool().Draw(t, "last"),
			Start: rapid.Uint32().Draw(t, "from"), End: rapid.Uint32().Draw(t, "end"),
			Blocks: drawBlocks(t), Aux: drawAux(t),
		}
	case KindClock:
		return &Clock{Sent: rapid.Int64().Draw(t, "sent"), Answered: rapid.Bool().Draw(t, "answered"), Now: rapid.Int64().Draw(t, "now")}
	}
	return &Progress{Request: text.Draw(t, "request"), Task: rapid.Uint32().Draw(t, "task"), Epoch: rapid.Uint64().Draw(t, "epoch")}
}

func drawBlocks(t *rapid.T) (out [][]int32) {
	for range rapid.IntRange(0, 4).Draw(t, "groups") {
		out = append(out, rapid.SliceOfN(rapid.Int32(), 0, 6).Draw(t, "blocks"))
	}
	return out
}

func drawAux(t *rapid.T) *Aux {
	if !rapid.Bool().Draw(t, "has aux") {
		return nil
	}
	a := &Aux{First: drawLogprob(t), Cached: rapid.Uint32().Draw(t, "cached")}
	for range rapid.IntRange(0, 3).Draw(t, "top") {
		a.Top = append(a.Top, drawLogprob(t))
	}
	return a
}

func drawLease(t *rapid.T) Lease {
	return Lease{
		Request: rapid.StringN(0, 20, 100).Draw(t, "lease"), Nonce: rapid.Uint64().Draw(t, "nonce"),
		Attempt: rapid.Uint32().Draw(t, "attempt"),
	}
}

func drawLeases(t *rapid.T) (out []Lease) {
	for range rapid.IntRange(0, 3).Draw(t, "leases") {
		out = append(out, drawLease(t))
	}
	return out
}

func drawLogprob(t *rapid.T) TokenLogprob {
	return TokenLogprob{Token: rapid.Int32().Draw(t, "token"), Logprob: rapid.Float32().Draw(t, "logprob")}
}

// TestMessageRoundTrip: what is encoded is decoded, whatever stands before it in the buffer;
// no frame that is cut short and none with a byte too many is taken for one.
//
// req: PIPE-12
// req: PIPE-20
// req: PIPE-34
func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		prefix := []byte("before")
		b := m.Append(prefix)
		if string(b[:len(prefix)]) != string(prefix) {
			t.Fatalf("Append changed what stood before: %q", b)
		}
		b = b[len(prefix):]
		got, err := DecodeMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("got %#v, want %#v", got, m)
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if got, err := DecodeMessage(b[:cut]); err == nil {
			t.Fatalf("%d of %d bytes were decoded to %#v", cut, len(b), got)
		}
		if _, err := DecodeMessage(append(b, 0)); err == nil || !strings.Contains(err.Error(), "1 bytes after") {
			t.Fatalf("a byte too many: %v", err)
		}
	})
}

// TestMessageKeepsFloats: a log-probability's bits travel, those of -Inf too.
//
// req: PIPE-20
func TestMessageKeepsFloats(t *testing.T) {
	for _, f := range []float32{0, -0.125, float32(math.Inf(-1)), math.SmallestNonzeroFloat32} {
		m := &Result{Status: StatusOK, Aux: &Aux{First: TokenLogprob{Token: 7, Logprob: f}}}
		got, err := DecodeMessage(m.Append(nil))
		if err != nil || math.Float32bits(got.(*Result).Aux.First.Logprob) != math.Float32bits(f) {
			t.Errorf("%v came as %#v, %v", f, got, err)
		}
	}
}

// TestDecodeMessageRefuses gives frames that no correct side sends.
func TestDecodeMessageRefuses(t *testing.T) {
	spoil := func(m Message, at int, v byte) []byte {
		b := m.Append(nil)
		b[at] = v
		return b
	}
	result := &Result{Request: "r", Status: StatusOK}
	const last, status, aux = 24, 29, 54 // where these bytes of such a result are
	long := (&Withdraw{Request: strings.Repeat("x", MaxString+1)}).Append(nil)
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"nothing":               {nil, ErrShort.Error()},
		"kind 0":                {[]byte{0}, "unknown message kind 0"},
		"a kind to come":        {[]byte{byte(KindClock) + 1}, "unknown message kind 10"},
		"a boolean of 2":        {spoil(result, last, 2), "2 is no boolean"},
		"a status of 0":         {spoil(result, status, 0), "unknown status(0)"},
		"a status to come":      {spoil(result, status, byte(StatusGone)+1), "unknown status(6)"},
		"an aux that is absent": {spoil(result, aux, 1), ErrShort.Error()},
		"a string too long":     {long, "longer than"},
	} {
		m, err := DecodeMessage(c.frame)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %#v, %v: want %q", name, m, err, c.want)
		}
	}
}

// TestDecodeMessageAllocates no more than its input justifies: lengths that lie cost nothing.
func TestDecodeMessageAllocates(t *testing.T) {
	register := (&Register{Request: "r"}).Append(nil)
	lists := append(register[:len(register)-4:len(register)-4], 0xff, 0xff, 0xff, 0x0f)
	list := append((&Register{Request: "r", Blocks: [][]int32{nil}}).Append(nil), make([]byte, 64)...)
	copy(list[len(register):], []byte{0xff, 0xff, 0xff, 0x0f})
	top := (&Result{Status: StatusOK, Aux: &Aux{}}).Append(nil)
	top = append(top[:len(top)-4:len(top)-4], 0xff, 0xff, 0xff, 0x0f)
	text := append([]byte{byte(KindProgress)}, 0xff, 0xff, 0, 0, 'r')
	for name, frame := range map[string][]byte{"lists": lists, "list": list, "top": top, "text": text} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeMessage(frame)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrShort) {
			t.Errorf("%s: %v, want %v", name, err, ErrShort)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%s: a frame of %d bytes cost %d bytes", name, len(frame), n)
		}
	}
}

// TestStatusNames: an operator reads the name.
func TestStatusNames(t *testing.T) {
	want := []string{"status(0)", "ok", "failed", "cancelled", "refused", "gone", "status(6)"}
	for i, name := range want {
		if got := Status(i).String(); got != name {
			t.Errorf("status %d is %q, want %q", i, got, name)
		}
	}
}

// TestTokenHash: prompts that differ anywhere differ in their hash, and so do prompts whose
// IDs run together.
//
// req: PIPE-34
func TestTokenHash(t *testing.T) {
	seen := map[[32]byte][]int32{}
	for _, p := range [][]int32{nil, {0}, {0, 0}, {1}, {1, 2}, {2, 1}, {12}, {256}, {1, 2, 3}, {1, 2, -3}} {
		h := TokenHash(p)
		if other, ok := seen[h]; ok {
			t.Errorf("%v and %v have one hash", p, other)
		}
		seen[h] = p
		if h != TokenHash(append([]int32(nil), p...)) {
			t.Errorf("%v has two hashes", p)
		}
	}
}
