package choose

import (
	"bytes"
	"reflect"
	"testing"
)

func TestMessagesComeBack(t *testing.T) {
	offer := []offered{{"shm", "unix:x"}, {"", ""}}
	if m, err := decode(encodeOffer(offer)); err != nil || !m.isOffer || !reflect.DeepEqual(m.offer, offer) {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := decode(encodeVerdict("shm")); err != nil || m.isOffer || m.verdict != "shm" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestBadMessages(t *testing.T) {
	many := append(bytes.Clone(magic), saysOffer, maxOffers+1)
	for name, b := range map[string][]byte{
		"nothing": {}, "no kind": magic, "another kind": append(bytes.Clone(magic), 9), "not ours": []byte("hello"),
		"too many": many, "short": encodeVerdict("shm")[:len(magic)+4], "long": append(encodeVerdict("shm"), 0),
	} {
		if m, err := decode(b); err == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(encodeOffer([]offered{{"shm", "unix:x"}}))
	f.Add(encodeVerdict("tcp"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		again := encodeVerdict(m.verdict)
		if m.isOffer {
			again = encodeOffer(m.offer)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}
