//go:build linux

package shm

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvferry/agent"
)

// What decodes encodes to the same bytes, and nothing makes a decoder panic or take more than a
// record may hold.
func FuzzPart(f *testing.F) {
	f.Add(appendPart(nil, onePair(1)))
	f.Add(appendPart(nil, &partRecord{number: 1, last: true, hasNotice: true, notice: 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p partRecord
		if len(b) < recordHeader || decodePart(b, &p) != nil {
			return
		}
		copy(b, appendHeader(nil, recordPart)) // which the ring has looked at
		if again := appendPart(nil, &p); !bytes.Equal(again[8:], b[8:]) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

func FuzzAck(f *testing.F) {
	f.Add(appendAck(nil, &ackRecord{number: 1, bytes: 2}))
	f.Add(appendAck(nil, &ackRecord{number: 1, refused: true, reason: "why not"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := decodeAck(b)
		if err != nil {
			return
		}
		if again, err := decodeAck(appendAck(nil, &k)); err != nil || again != k {
			t.Errorf("%+v became %+v, %v", k, again, err)
		}
	})
}

func FuzzNotice(f *testing.F) {
	f.Add(appendNotice(nil, []byte("piece")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if piece, err := decodeNotice(b); err == nil {
			if again, err := decodeNotice(appendNotice(nil, piece)); err != nil || !bytes.Equal(again, piece) {
				t.Errorf("%q became %q, %v", piece, again, err)
			}
		}
	})
}

func FuzzKit(f *testing.F) {
	k := &kit{mappings: []uint64{4096}, regions: []kitRange{{0, 8, 16}}}
	f.Add(k.append(nil))
	f.Add((&kit{}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := decodeKit(b)
		if err != nil {
			return
		}
		if !bytes.Equal(k.append(nil), b) {
			t.Errorf("%x became %x", b, k.append(nil))
		}
	})
}

// Whatever lies in a peer's ring, taking records from it ends.
func FuzzRing(f *testing.F) {
	f.Add(appendPart(nil, onePair(1)), uint64(72), uint64(0))
	f.Add(appendAck(nil, &ackRecord{number: 1}), uint64(32), uint64(ringBytes-16))
	f.Fuzz(func(t *testing.T, b []byte, tail, head uint64) {
		mine, peer := door{make([]byte, doorBytes)}, door{make([]byte, doorBytes)}
		c := consumer{mine: mine, peer: peer, head: head &^ 7}
		n := copy(peer.ring()[c.head%ringBytes:], b)
		copy(peer.ring(), b[n:])
		peer.tail().Store(c.head + tail)
		for range ringBytes/recordHeader + 1 {
			b, err := c.take()
			if err != nil || b == nil {
				return
			}
			if len(b) < recordHeader || len(b)%8 != 0 {
				t.Fatalf("a record of %d bytes", len(b))
			}
		}
		t.Error("records without end")
	})
}

func TestReasonIsCut(t *testing.T) {
	k := ackRecord{number: 1, refused: true, reason: strings.Repeat("x", maxReason+5)}
	if got, err := decodeAck(appendAck(nil, &k)); err != nil || len(got.reason) != maxReason {
		t.Errorf("%d bytes, %v", len(got.reason), err)
	}
}

// Records go through the ring whole and in order, wherever its end is.
func TestRingKeepsRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := door{make([]byte, doorBytes)}, door{make([]byte, doorBytes)}
		p, c := producer{mine: a, peer: b}, consumer{mine: b, peer: a}
		var want [][]byte
		for range 60 {
			n := 8 * rapid.IntRange(1, maxRecord/8).Draw(t, "words")
			for {
				ok, err := p.room(n)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					break
				}
				got, err := c.take()
				if err != nil || !bytes.Equal(got, want[0]) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
				want = want[1:]
				if !c.hungry() {
					t.Fatal("the producer's hunger is not seen")
				}
			}
			r := bytes.Repeat([]byte{byte(n / 8)}, n)
			le.PutUint32(r, uint32(n))
			p.put(r)
			want = append(want, r)
		}
		for _, w := range want {
			if got, err := c.take(); err != nil || !bytes.Equal(got, w) {
				t.Fatalf("%d bytes of %d, %v", len(got), len(w), err)
			}
		}
		if !c.doze() {
			t.Error("something is left")
		}
	})
}

// A consumer that goes to sleep is rung for what comes after, once a sleep.
func TestBellIsRungOnceASleep(t *testing.T) {
	a, b := door{make([]byte, doorBytes)}, door{make([]byte, doorBytes)}
	p, c := producer{mine: a, peer: b}, consumer{mine: b, peer: a}
	put := func() bool {
		p.owed = false
		p.put(raw(recordAck, 8, 8))
		return p.owed
	}
	if put() {
		t.Error("rung while awake")
	}
	if c.doze() {
		t.Error("it sleeps though there is something")
	}
	if !put() || put() {
		t.Error("not rung once")
	}
}

// The parts of a transfer are all its bytes, in order, within the limits; words stay alone.
func TestCutterGivesAllBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := &agent.Transfer{}
		for i := range rapid.IntRange(0, 20).Draw(t, "pairs") {
			n := rapid.SampledFrom([]uint64{0, 1, 8, 8, 64, 100, 4096}).Draw(t, "length")
			at := uint64(8192 * i)
			if i > 0 && rapid.Bool().Draw(t, "goes on") {
				at = tr.Local[i-1].Offset + tr.Local[i-1].Length
			}
			tr.Local = append(tr.Local, agent.Desc{Region: 1, Offset: at, Length: n})
			tr.Remote = append(tr.Remote, agent.Desc{Region: 2, Offset: at + 1<<30, Length: n})
			tr.LocalIdx, tr.RemoteIdx = append(tr.LocalIdx, int32(i)), append(tr.RemoteIdx, int32(i))
		}
		read := rapid.Bool().Draw(t, "read")
		ranges, bytes := rapid.IntRange(1, 5).Draw(t, "ranges"), rapid.Uint64Range(8, 5000).Draw(t, "bytes")
		c := cutter{t: tr, read: read}
		var got, want []uint64 // the address of each byte of the target
		for last := false; !last; {
			var pairs []pair
			var n uint64
			pairs, n, last = c.next(nil, ranges, bytes)
			if len(pairs) > ranges || n > bytes {
				t.Fatalf("%d ranges, %d bytes", len(pairs), n)
			}
			for _, p := range pairs {
				local, remote := p.from, p.to
				if read {
					local, remote = p.to, p.from
				}
				if remote-local != 1<<30 || p.length == 0 {
					t.Fatalf("%+v", p)
				}
				for i := range p.length {
					got = append(got, local+i)
				}
			}
		}
		for _, d := range tr.Local {
			for i := range d.Length {
				want = append(want, d.Offset+i)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes of %d", len(got), len(want))
		}
	})
}

// Slots side by side are words each, and a list that has them is read in order.
func TestWordsStayAlone(t *testing.T) {
	l := agent.List{{Length: 4096}, {Offset: 4096, Length: 8}, {Offset: 4104, Length: 8}, {Offset: 4112, Length: 4096}}
	tr := &agent.Transfer{Local: l, Remote: l, LocalIdx: []int32{0, 1, 2, 3}, RemoteIdx: []int32{0, 1, 2, 3}}
	c := cutter{t: tr, read: true}
	pairs, _, _ := c.next(nil, 10, 1<<20)
	if len(pairs) != 4 || !hasWords(tr) {
		t.Errorf("%+v", pairs)
	}
	tr.LocalIdx, tr.RemoteIdx = []int32{0, 3}, []int32{0, 3}
	if hasWords(tr) {
		t.Error("words where there are none")
	}
}

// Addresses of other hosts and namespaces, and other users, are told by a typed error, so that
// another agent is tried.
func TestNotLocal(t *testing.T) {
	host, err := hostKey()
	must(t, err)
	if name, err := parseAddr(host, "shm:"+host+"/abc"); err != nil || name != "abc" {
		t.Errorf("%q, %v", name, err)
	}
	if _, err := parseAddr(host, "shm:0123456789abcdef/abc"); !errors.Is(err, agent.ErrNotLocal) {
		t.Error(err)
	}
	for _, bad := range []string{"", "host:1", "shm:", "shm:" + host, "shm:" + host + "/", "shm:" + host + "/a/b", "shm:" + host + "/" + strings.Repeat("x", 91)} {
		if _, err := parseAddr(host, bad); err == nil || errors.Is(err, agent.ErrNotLocal) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := sameUser(1000, 1001); !errors.Is(err, agent.ErrNotLocal) {
		t.Error(err)
	}
	if err := sameUser(1000, 1000); err != nil {
		t.Error(err)
	}
	a, _ := running(t, Options{})
	a.Connect("shm:0123456789abcdef/abc")
	if e := await[agent.ConnectFailed](t, a); !errors.Is(e.Err, agent.ErrNotLocal) {
		t.Error(e.Err)
	}
}

// Memory of the heap is refused by an error that says why.
func TestRegisterRefusesTheHeap(t *testing.T) {
	a, err := New(Options{})
	must(t, err)
	defer a.Close(t.Context())
	if _, err := a.Register(make([]byte, 4096)); err == nil || !strings.Contains(err.Error(), "not within a mapping") {
		t.Error(err)
	}
	mem := mapped(t, 8192)
	for i, b := range [][]byte{mem, mem[4096+8 : 5000]} {
		if r, err := a.Register(b); err != nil || int(r) != i {
			t.Errorf("region %d, %v", r, err)
		}
	}
	if len(a.own.files) != 1 || a.own.kit.regions[1].offset != 4096+8 {
		t.Errorf("%+v", a.own.kit)
	}
}
