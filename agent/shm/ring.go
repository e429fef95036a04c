//go:build linux

package shm

import (
	"fmt"
	"sync/atomic"

	"kvferry/agent/memory"
)

// ringBytes is how much a ring holds. A door is a page of counters and then its ring.
const (
	ringBytes = 256 << 10
	doorPage  = 4096
	doorBytes = doorPage + ringBytes
)

// door is what one side of a link writes and the other reads: its ring, and its counters, each
// on a cache line of its own. Both sides have one, so nobody writes to what is another's.
type door struct {
	mem []byte
}

// tail is how many bytes were put into this ring, ever.
func (d door) tail() *atomic.Uint64 { return word(d.mem, 0) }

// head is how many bytes the owner has taken out of the other's ring.
func (d door) head() *atomic.Uint64 { return word(d.mem, 128) }

// dozes counts the times the owner went to sleep: it wants a bell for what was put after.
func (d door) dozes() *atomic.Uint64 { return word(d.mem, 256) }

// starved counts the times the owner found its ring full: it wants a bell when there is space.
func (d door) starved() *atomic.Uint64 { return word(d.mem, 384) }

// closed is not 0 once the owner has given the link up: what is copied out of its memory from then
// on may be anything.
func (d door) closed() *atomic.Uint64 { return word(d.mem, 512) }

func (d door) ring() []byte { return d.mem[doorPage:] }

// newDoor maps a door of ours.
func newDoor() (*memory.Memory, error) { return memory.Map("kvferry-shm-door", doorBytes) }

// producer puts records into our ring. It is used under the link's lock.
type producer struct {
	mine, peer door
	tail       uint64 // of mine; nobody else writes it, but what lies in memory is not trusted
	head       uint64 // of the peer, as it was last seen
	dozes      uint64 // of the peer, for which the bell was rung
	// owed says that the peer must be rung for what was put.
	owed bool
}

// room says whether a record of n bytes has room. Where it has none the bell rings when the peer
// has taken something.
func (p *producer) room(n int) (bool, error) {
	if ok, err := p.fits(n); ok || err != nil {
		return ok, err
	}
	p.mine.starved().Add(1)
	return p.fits(n)
}

func (p *producer) fits(n int) (bool, error) {
	head := p.peer.head().Load()
	if head-p.head > p.tail-p.head {
		return false, fmt.Errorf("the peer took %d bytes of %d that were put", head, p.tail)
	}
	p.head = head
	return p.tail-head+uint64(n) <= ringBytes, nil
}

// put puts a record that has room.
func (p *producer) put(record []byte) {
	ring, at := p.mine.ring(), int(p.tail%ringBytes)
	n := copy(ring[at:], record)
	copy(ring, record[n:])
	p.tail += uint64(len(record))
	p.mine.tail().Store(p.tail)
	if dozes := p.peer.dozes().Load(); dozes != p.dozes {
		p.dozes, p.owed = dozes, true
	}
}

// consumer takes records out of the peer's ring.
type consumer struct {
	mine, peer door
	head       uint64 // of mine
	starved    uint64 // of the peer, for which the bell was rung
	record     [maxRecord]byte
}

// take gives the next record, which is a copy: the peer could change what lies in its memory
// after we looked. Nil is that there is none.
func (c *consumer) take() ([]byte, error) {
	have := c.peer.tail().Load() - c.head
	if have == 0 {
		return nil, nil
	}
	if have > ringBytes || have < recordHeader || have%8 != 0 {
		return nil, broken("%d bytes in a ring of %d", have, ringBytes)
	}
	c.read(c.record[:recordHeader])
	n := le.Uint32(c.record[:])
	if n < recordHeader || n > maxRecord || n%8 != 0 || uint64(n) > have {
		return nil, broken("a record of %d bytes where %d came", n, have)
	}
	b := c.record[:n]
	c.read(b)
	le.PutUint32(b, n)
	c.head += uint64(n)
	c.mine.head().Store(c.head)
	return b, nil
}

func (c *consumer) read(b []byte) {
	ring, at := c.peer.ring(), int(c.head%ringBytes)
	n := copy(b, ring[at:])
	copy(b[n:], ring)
}

// hungry says whether the peer waits for space and was not told yet that there is some.
func (c *consumer) hungry() bool {
	s := c.peer.starved().Load()
	hungry := s != c.starved
	c.starved = s
	return hungry
}

// doze says whether we may sleep until the bell rings.
func (c *consumer) doze() bool {
	c.mine.dozes().Add(1)
	return c.peer.tail().Load() == c.head
}
