package nixl

import (
	"bytes"
	"reflect"
	"testing"

	"kvferry/wire"
)

func TestCardComesBack(t *testing.T) {
	c := card{places: []place{{4096, 100}, {1 << 40, 1 << 30}}, meta: []byte("meta")}
	got, err := decodeCard(c.encode())
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%v, %v", got, err)
	}
}

// A peer's card is refused where it is not whole, and no range outside its regions has an address.
func TestBadCards(t *testing.T) {
	good := card{places: []place{{4096, 100}}, meta: []byte("m")}.encode()
	for name, b := range map[string][]byte{
		"empty":           {},
		"truncated":       good[:10],
		"no metadata":     good[:len(good)-1],
		"too many places": {0xff, 0xff, 0xff, 0xff, 1},
		"wraps":           card{places: []place{{^uint64(0), 2}}, meta: []byte("m")}.encode(),
	} {
		if c, err := decodeCard(b); err == nil {
			t.Errorf("%s: %v", name, c)
		}
	}
	c, err := decodeCard(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []wire.Range{{Region: 1}, {Offset: 101}, {Offset: 50, Length: 51}, {Offset: 1, Length: ^uint64(0)}} {
		if at, err := c.address(r.Region, r.Offset, r.Length); err == nil {
			t.Errorf("%v is at %d", r, at)
		}
	}
	if at, err := c.address(0, 100, 0); err != nil || at != 4196 {
		t.Errorf("the end: %d, %v", at, err)
	}
}

// What does not fit one payload of the control agent goes in several, none too long.
func TestPieces(t *testing.T) {
	for _, n := range []int{0, 1, wire.MaxNotice - 1, wire.MaxNotice, 3 * wire.MaxNotice} {
		b := bytes.Repeat([]byte{7}, n)
		var whole []byte
		ps := pieces(saysMore, saysNotice, b)
		for i, p := range ps {
			want := saysMore
			if i == len(ps)-1 {
				want = saysNotice
			}
			if len(p) > wire.MaxNotice || p[0] != want {
				t.Errorf("%d bytes: piece %d has %d and says %d", n, i, len(p), p[0])
			}
			whole = append(whole, p[1:]...)
		}
		if !bytes.Equal(whole, b) {
			t.Errorf("%d bytes came as %d", n, len(whole))
		}
	}
}

func FuzzCard(f *testing.F) {
	f.Add(card{places: []place{{4096, 100}}, meta: []byte("meta")}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCard(b)
		if err == nil && !bytes.Equal(c.encode(), b) {
			t.Errorf("%x became %x", b, c.encode())
		}
	})
}
