package choose

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// magic begins what two of these agents tell each other among the notices of their owners, which
// begin otherwise.
var magic = []byte("\xf3kvferry-choose\x00")

// What follows the magic.
const (
	saysOffer   byte = 1 // what else there is
	saysVerdict byte = 2 // what is used
)

// offered is one agent of the other side's.
type offered struct{ name, addr string }

// maxOffers bounds an offer.
const maxOffers = 16

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func encodeOffer(os []offered) []byte {
	b := append(bytes.Clone(magic), saysOffer, byte(len(os)))
	for _, o := range os {
		b = appendString(appendString(b, o.name), o.addr)
	}
	return b
}

func encodeVerdict(name string) []byte {
	return appendString(append(bytes.Clone(magic), saysVerdict), name)
}

// message is an offer, or else a verdict.
type message struct {
	offer   []offered
	isOffer bool
	verdict string
}

var errMessage = errors.New("the peer says what is neither an offer nor a verdict")

func decode(b []byte) (message, error) {
	b, ours := bytes.CutPrefix(b, magic)
	if !ours || len(b) == 0 {
		return message{}, errMessage
	}
	d := &decoder{b: b[1:]}
	var m message
	switch b[0] {
	case saysOffer:
		m.isOffer = true
		n := d.byte()
		if n > maxOffers {
			return message{}, fmt.Errorf("%w: %d offers", errMessage, n)
		}
		for range n {
			m.offer = append(m.offer, offered{d.string(), d.string()})
		}
	case saysVerdict:
		m.verdict = d.string()
	default:
		return message{}, fmt.Errorf("%w: kind %d", errMessage, b[0])
	}
	if d.short || len(d.b) > 0 {
		return message{}, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	return m, nil
}

type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.short, d.b = true, nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) string() string {
	n := d.take(2)
	if n == nil {
		return ""
	}
	return string(d.take(int(binary.LittleEndian.Uint16(n))))
}
