//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kvferry/wire"
)

// The kinds of records in a ring.
const (
	recordPart   = iota + 1 // a part of a write, whose bytes are to be copied
	recordNotice            // a piece of the notice of the part that follows
	recordAck               // a part was copied, or refused
)

// Sizes of records, in bytes. All are multiples of 8.
const (
	recordHeader = 8
	partHeader   = recordHeader + 32
	pairBytes    = 32
	noticeHeader = recordHeader + 8
	ackHeader    = recordHeader + 24
	maxPiece     = 16 << 10
	maxReason    = 1 << 10
	maxPairs     = 1024
	maxRecord    = partHeader + maxPairs*pairBytes
)

// pair is bytes to copy: Length of them from the source's region to the target's.
type pair struct {
	fromRegion, toRegion uint32
	from, to             uint64
	length               uint64
}

// partRecord is a part of a write. Its pairs are good until the next record is decoded into it.
type partRecord struct {
	number uint64 // the write's
	epoch  uint64
	index  uint32 // of the part
	last   bool
	// hasNotice and notice say that the write has a notice, of so many bytes. They are the last
	// part's.
	hasNotice bool
	notice    uint32
	bytes     uint64 // that the pairs hold
	pairs     []pair
}

// ackRecord ends a part of a write.
type ackRecord struct {
	number  uint64
	bytes   uint64 // of the part
	refused bool
	reason  string
}

var le = binary.LittleEndian

// errRecord is why a peer is dropped whose ring holds what no agent writes.
var errRecord = errors.New("a broken record in the peer's ring")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRecord, fmt.Sprintf(format, args...))
}

// flags of a part and of an ack.
const (
	flagLast    = 1
	flagNotice  = 2
	flagRefused = 4
)

func appendHeader(b []byte, kind uint32) []byte {
	return le.AppendUint32(le.AppendUint32(b, 0), kind)
}

// seal pads a record and writes its length.
func seal(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}

func flag(on bool, f uint32) uint32 {
	if on {
		return f
	}
	return 0
}

// appendPart encodes a part; b is empty.
func appendPart(b []byte, p *partRecord) []byte {
	b = appendHeader(b, recordPart)
	b = le.AppendUint64(b, p.number)
	b = le.AppendUint64(b, p.epoch)
	b = le.AppendUint32(b, p.index)
	b = le.AppendUint32(b, flag(p.last, flagLast)|flag(p.hasNotice, flagNotice))
	b = le.AppendUint32(b, p.notice)
	b = le.AppendUint32(b, uint32(len(p.pairs)))
	for i := range p.pairs {
		q := &p.pairs[i]
		b = le.AppendUint32(b, q.fromRegion)
		b = le.AppendUint32(b, q.toRegion)
		b = le.AppendUint64(b, q.from)
		b = le.AppendUint64(b, q.to)
		b = le.AppendUint64(b, q.length)
	}
	return seal(b)
}

// decodePart decodes what appendPart encoded, into p, whose pairs it uses again.
func decodePart(b []byte, p *partRecord) error {
	if len(b) < partHeader {
		return broken("a part of %d bytes", len(b))
	}
	flags, n := le.Uint32(b[28:]), le.Uint32(b[36:])
	p.number, p.epoch, p.index = le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[24:])
	p.last, p.hasNotice, p.notice = flags&flagLast != 0, flags&flagNotice != 0, le.Uint32(b[32:])
	p.bytes, p.pairs = 0, p.pairs[:0]
	switch {
	case flags&^(flagLast|flagNotice) != 0:
		return broken("flags %#x of a part", flags)
	case n > maxPairs || len(b) != partHeader+int(n)*pairBytes:
		return broken("%d ranges in %d bytes", n, len(b))
	case p.hasNotice && !p.last || !p.hasNotice && p.notice > 0 || p.notice > wire.MaxNotice:
		return broken("a notice of %d bytes, flags %#x", p.notice, flags)
	}
	for b = b[partHeader:]; len(b) > 0; b = b[pairBytes:] {
		q := pair{
			fromRegion: le.Uint32(b), toRegion: le.Uint32(b[4:]),
			from: le.Uint64(b[8:]), to: le.Uint64(b[16:]), length: le.Uint64(b[24:]),
		}
		if q.length == 0 || q.length > wire.MaxBulk-p.bytes {
			return broken("a part of no bytes, or more than %d", wire.MaxBulk)
		}
		p.bytes += q.length
		p.pairs = append(p.pairs, q)
	}
	return nil
}

// appendNotice encodes a piece of at most maxPiece bytes; b is empty.
func appendNotice(b, piece []byte) []byte {
	b = appendHeader(b, recordNotice)
	b = le.AppendUint64(b, uint64(len(piece)))
	return seal(append(b, piece...))
}

// decodeNotice gives the piece, which is within b.
func decodeNotice(b []byte) ([]byte, error) {
	if len(b) < noticeHeader {
		return nil, broken("a notice of %d bytes", len(b))
	}
	n := le.Uint64(b[8:])
	if n == 0 || n > maxPiece || len(b) != pad(noticeHeader+int(n)) {
		return nil, broken("%d bytes of a notice in %d", n, len(b))
	}
	return b[noticeHeader : noticeHeader+n], nil
}

func pad(n int) int { return (n + 7) &^ 7 }

// appendAck encodes an ack; b is empty. What is too long of the reason is cut off.
func appendAck(b []byte, k *ackRecord) []byte {
	reason := k.reason[:min(len(k.reason), maxReason)]
	b = appendHeader(b, recordAck)
	b = le.AppendUint64(b, k.number)
	b = le.AppendUint64(b, k.bytes)
	b = le.AppendUint32(b, flag(k.refused, flagRefused))
	b = le.AppendUint32(b, uint32(len(reason)))
	return seal(append(b, reason...))
}

// decodeAck decodes what appendAck encoded.
func decodeAck(b []byte) (ackRecord, error) {
	if len(b) < ackHeader {
		return ackRecord{}, broken("an ack of %d bytes", len(b))
	}
	flags, n := le.Uint32(b[24:]), le.Uint32(b[28:])
	k := ackRecord{number: le.Uint64(b[8:]), bytes: le.Uint64(b[16:]), refused: flags == flagRefused}
	if flags&^flagRefused != 0 || n > maxReason || !k.refused && n > 0 || len(b) != pad(ackHeader+int(n)) {
		return ackRecord{}, broken("an ack with flags %#x and %d bytes of reason in %d", flags, n, len(b))
	}
	k.reason = string(b[ackHeader : ackHeader+n])
	return k, nil
}
