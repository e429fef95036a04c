package engine_test

import (
	"kvferry/engine"
	"kvferry/transfer"
)

// sight is something that the cases must have shown.
type sight uint8

const (
	hitOnP sight = iota
	hitOnD
	hitOnBoth
	hitInsideBlock
	wholePromptOnD
	chunkedTransfer
	emptyLast
	lateRegistration
	preemptedOnP
	preemptedAfterSlices
	evictedOnP
	computedAgain
	preemptedOnD
	replicatedOnP
	replicatedOnD
	stagesOnP
	stagesOnD
	otherGeometry
	windowed
	recurrent
	growToReserve
	reserveToGrow
	sliceVerified
	abortInFlight
	partSent
	stateInParts
	summedParts
	restWaits
	stopsInParts
	writeRefused
	kindsOfSight
)

func (s sight) String() string {
	return [...]string{
		"a prefix hit on P", "a prefix hit on D", "a prefix hit on both", "a hit that ends inside a block",
		"a whole prompt that D has", "a transfer in several slices", "a last slice that brings nothing",
		"a registration after the last chunk", "a preemption on P", "a preemption on P after slices were sent",
		"an eviction of a finished prefill", "which is computed again", "a preemption on D", "heads on several ranks of P", "heads on several ranks of D",
		"several stages on P", "several stages on D", "geometries that differ", "a window group", "a recurrent group",
		"grow to reserve", "reserve to grow", "a slice that is verified", "an abort while a copy is in flight",
		"layers that leave before their chunk is computed", "a state behind the layers of its slice", "a checksum over parts",
		"a chunk that ends with layers of it in flight", "an abort on P with layers in flight", "a write that is refused",
	}[s]
}

func (w *world) saw(s sight) { w.seen[s]++ }

func (w *world) sawIf(s sight, is bool) {
	if is {
		w.seen[s]++
	}
}

func (w *world) sights() {
	c := w.c
	w.sawIf(replicatedOnP, c.p.parallel.Tensor > c.layout.KVHeads)
	w.sawIf(replicatedOnD, c.d.parallel.Tensor > c.layout.KVHeads)
	w.sawIf(stagesOnP, c.p.parallel.Pipeline > 1)
	w.sawIf(stagesOnD, c.d.parallel.Pipeline > 1)
	w.sawIf(otherGeometry, c.p.parallel != c.d.parallel)
	w.sawIf(growToReserve, c.p.grow && !c.d.grow)
	w.sawIf(reserveToGrow, !c.p.grow && c.d.grow)
	for _, g := range c.layout.Groups {
		w.sawIf(windowed, g.Window > 0)
		w.sawIf(recurrent, g.Recurrent())
	}
}

func (w *world) sawPass(h *host, r *request, work engine.Work) {
	e := h.ends[r.id]
	if e.first < 0 {
		e.first = work.Start
		w.sawIf(hitOnP, h == w.p && work.Start > 0)
		w.sawIf(hitInsideBlock, len(work.Copies) > 0)
	}
	w.sawIf(preemptedOnD, e.leg == engine.DecodeLeg && work.Start < r.prompt())
}

func (w *world) sawRegister(e *epoch) {
	w.sawIf(hitOnD, e.cached > 0)
	w.sawIf(hitOnBoth, e.cached > 0 && w.p.ends[e.r.id] != nil && w.p.ends[e.r.id].first > 0)
	w.sawIf(wholePromptOnD, e.cached == e.r.prompt())
}

func (w *world) sawCopy(f *flight) {
	w.sawIf(chunkedTransfer, f.copy.Slice > 0)
	w.sawIf(emptyLast, len(f.blocks) == 0 && f.last())
	w.sawIf(partSent, f.copy.Notice == nil)
	ends := f.copy.Notice != nil && f.copy.Layers.Start > 0
	w.sawIf(summedParts, ends && f.copy.Checksum)
	w.sawIf(stateInParts, ends && f.last() && w.c.layout.Groups[f.copy.Groups[0].Group].Recurrent())
}

func (w *world) watch(e engine.Watched) {
	switch e.Event.(type) {
	case transfer.ChunkComputed:
		w.sawIf(restWaits, w.partUnder(e.Request))
	case transfer.TakenBack:
		w.sawIf(evictedOnP, e.To == "evicted")
		w.sawIf(preemptedOnP, e.To != "evicted")
		w.sawIf(preemptedAfterSlices, e.To == "flowing")
	case transfer.Registered:
		w.sawIf(lateRegistration, e.From == "offered")
		w.sawIf(computedAgain, e.From == "evicted" && e.To != "released")
	}
	w.trace("%s of %s: %T, %s to %s", e.Machine, e.Request, e.Event, e.From, e.To)
}
