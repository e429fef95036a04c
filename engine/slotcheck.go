package engine

import (
	"kvferry/transfer"
	"kvferry/wire"
)

// maxSlotRead is how many slots one READ brings at most.
const maxSlotRead = 256

// slotChecks gathers the slots that pulls want to see: while one READ of a peer's rank is out,
// those that come meanwhile wait and share the next one (LEASE-15).
type slotChecks struct {
	rows  map[checkKey]*checkRow
	order []checkKey // of rows, as they came to be
	out   map[uint64]*checkRow
	id    uint64
}

type checkKey struct {
	peer   wire.Life
	writer int
}

type checkRow struct {
	checkKey
	waiting []slotCheck
	asked   []slotCheck // by the READ that is out; nil if none is
}

type slotCheck struct {
	seq   *seq
	epoch uint64 // of the pull: the request may be on another one by the time of the answer
	slot  int
}

func (c *slotChecks) add(o transfer.CheckSlot, s *seq) {
	key := checkKey{o.Peer, o.Writer}
	row := c.rows[key]
	if row == nil {
		row = &checkRow{checkKey: key}
		c.rows[key] = row
		c.order = append(c.order, key)
	}
	row.waiting = append(row.waiting, slotCheck{s, s.epoch, o.Slot})
}

// readSlots sends out what waits.
func (e *Engine) readSlots() {
	c := &e.pull.checks
	keep := c.order[:0]
	for _, key := range c.order {
		row := c.rows[key]
		if row.asked == nil && len(row.waiting) == 0 {
			delete(c.rows, key)
			continue
		}
		keep = append(keep, key)
		if row.asked == nil {
			n := min(len(row.waiting), maxSlotRead)
			row.asked, row.waiting = row.waiting[:n:n], row.waiting[n:]
			c.id++
			c.out[c.id] = row
			r := ReadSlots{ID: c.id, Peer: key.peer, Writer: key.writer}
			for _, a := range row.asked {
				r.Slots = append(r.Slots, a.slot)
			}
			e.emit(r)
		}
	}
	c.order = keep
}

// slotsRead takes what a READ of slots brought to the pulls that asked.
func (e *Engine) slotsRead(now int64, ev SlotsRead) {
	row := e.pull.checks.out[ev.ID]
	if row == nil {
		return
	}
	delete(e.pull.checks.out, ev.ID)
	asked := row.asked
	row.asked = nil
	for i, a := range asked {
		if a.seq.pull == nil || a.seq.epoch != a.epoch {
			continue
		}
		got := transfer.SlotRead{Writer: row.writer, Err: ev.Err}
		if ev.Err == nil {
			got.Value = ev.Values[i]
		}
		e.stepPull(now, a.seq, got)
	}
}
