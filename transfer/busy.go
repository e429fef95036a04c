package transfer

// busy measures the time in which at least one thing was in flight, as closed intervals of
// nanoseconds in order.
type busy struct {
	open  int
	since int64
	spans [][2]int64
}

func (b *busy) begin(now int64) {
	if b.open == 0 {
		b.since = now
	}
	b.open++
}

func (b *busy) end(now int64) {
	b.open--
	if b.open == 0 {
		b.spans = append(b.spans, [2]int64{b.since, now})
	}
}

// split is the whole busy time, and the part of it after the instant at.
func (b *busy) split(at int64) (total, after int64) {
	for _, s := range b.spans {
		total += s[1] - s[0]
		after += max(0, s[1]-max(s[0], at))
	}
	return total, after
}
