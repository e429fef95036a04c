package tcp

import "kvferry/wire"

// flowKey names what is sent in order: an epoch's writes, or the parts of one read.
type flowKey struct {
	read  bool
	epoch uint64 // or the peer's number of the read
}

// job is something to send on a bulk connection: a write of ours, or one answer to a read.
type job struct {
	op     *op
	data   wire.ReadData
	ranges []wire.Range
}

// flow is the jobs of one key, in order.
type flow struct {
	key  flowKey
	jobs []*job
}

// flows takes turns between the flows of one bulk connection, a frame each, so that a large
// transfer does not hold up another receive's small one.
type flows struct {
	byKey map[flowKey]*flow
	ring  []*flow // the next to send is first; none is empty
}

func (f *flows) add(key flowKey, j *job) {
	w := f.byKey[key]
	if w == nil {
		w = &flow{key: key}
		f.byKey[key] = w
		f.ring = append(f.ring, w)
	}
	w.jobs = append(w.jobs, j)
}

// next is the job whose frame is to be sent now, or nil. Jobs whose transfer has ended are
// forgotten. The job stays until done.
func (f *flows) next() *job {
	for len(f.ring) > 0 {
		w := f.ring[0]
		for len(w.jobs) > 0 && w.jobs[0].op != nil && w.jobs[0].op.dead {
			w.pop()
		}
		if len(w.jobs) > 0 {
			return w.jobs[0]
		}
		f.turn()
	}
	return nil
}

// sent ends the turn of the job that next gave; last says that its last frame is sent.
func (f *flows) sent(last bool) {
	if last {
		f.ring[0].pop()
	}
	f.turn()
}

// turn puts the first flow last, or takes it out where it is empty.
func (f *flows) turn() {
	w := f.ring[0]
	copy(f.ring, f.ring[1:])
	f.ring[len(f.ring)-1] = w
	if len(w.jobs) == 0 {
		f.ring[len(f.ring)-1] = nil
		f.ring = f.ring[:len(f.ring)-1]
		delete(f.byKey, w.key)
	}
}

func (w *flow) pop() {
	w.jobs[0] = nil
	w.jobs = w.jobs[1:]
}
