package sim

// A process's clock shows another time than the others', and runs a little too fast or too slow.

// apart is how far two clocks may be from each other when a run begins, in nanoseconds.
const apart = int64(9 * 3600 * 1e9)

const million = 1_000_000

// setClock draws a process's clock.
func (p *proc) setClock() {
	most := int64(p.w.plan.Cluster.Drift)
	if most == 0 {
		return
	}
	h := mix2(mix2(p.w.plan.Seed, 'k'), uint64(p.node.index)<<32|uint64(p.node.lives))
	p.offset = int64(h % uint64(apart))
	p.drift = int64(mix(h)%uint64(2*most+1)) - most
}

// clock is what the process's clock shows now.
func (p *proc) clock() int64 { return p.shows(p.w.now) }

func (p *proc) shows(t int64) int64 { return p.offset + t + t*p.drift/million }

// instant is the first one at which the process's clock shows a time.
func (p *proc) instant(shown int64) int64 {
	if shown == never {
		return never
	}
	x := shown - p.offset
	t := x - x/(million+p.drift)*p.drift
	for p.shows(t) < shown {
		t++
	}
	for t > 0 && p.shows(t-1) >= shown {
		t--
	}
	return t
}
