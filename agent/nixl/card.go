package nixl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kvferry/wire"
)

// What the control agent carries begins with a byte that says what follows.
const (
	saysNotice byte = iota // the rest of a notice of the owner's
	saysMore               // its beginning, when it does not fit one
	saysCard               // the rest of a card
	saysBegin              // its beginning, when it does not fit one
)

// pieces cuts what is said into payloads for the control agent.
func pieces(more, last byte, b []byte) [][]byte {
	var out [][]byte
	for len(b) > wire.MaxNotice-1 {
		out = append(out, append([]byte{more}, b[:wire.MaxNotice-1]...))
		b = b[wire.MaxNotice-1:]
	}
	return append(out, append([]byte{last}, b...))
}

// place is where a region lies in its process.
type place struct{ base, size uint64 }

// card is what a peer must know to move bytes.
type card struct {
	places []place
	meta   []byte // NIXL's own
}

// The bounds of a card, against a peer that means harm.
const (
	maxPlaces = 1 << 12
	maxCard   = 1 << 22
)

func (c card) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(c.places)))
	for _, p := range c.places {
		b = binary.LittleEndian.AppendUint64(b, p.base)
		b = binary.LittleEndian.AppendUint64(b, p.size)
	}
	return append(b, c.meta...)
}

var errCard = errors.New("the peer's card is not in its form")

func decodeCard(b []byte) (card, error) {
	le := binary.LittleEndian
	if len(b) < 4 || len(b) > maxCard {
		return card{}, fmt.Errorf("%w: %d bytes", errCard, len(b))
	}
	n := le.Uint32(b)
	b = b[4:]
	if n > maxPlaces || int(n)*16 > len(b) {
		return card{}, fmt.Errorf("%w: %d regions in %d bytes", errCard, n, len(b))
	}
	c := card{places: make([]place, n)}
	for i := range c.places {
		p := place{le.Uint64(b[16*i:]), le.Uint64(b[16*i+8:])}
		if p.base+p.size < p.base {
			return card{}, fmt.Errorf("%w: region %d ends past 2^64", errCard, i)
		}
		c.places[i] = p
	}
	if c.meta = b[16*n:]; len(c.meta) == 0 {
		return card{}, fmt.Errorf("%w: no metadata", errCard)
	}
	return c, nil
}

// address is where a range of a peer's region lies in its process, or why it cannot.
func (c card) address(region uint32, offset, length uint64) (uint64, error) {
	if uint64(region) >= uint64(len(c.places)) {
		return 0, fmt.Errorf("region %d of %d", region, len(c.places))
	}
	p := c.places[region]
	if offset > p.size || length > p.size-offset {
		return 0, fmt.Errorf("bytes %d+%d of region %d, which has %d", offset, length, region, p.size)
	}
	return p.base + offset, nil
}
