// Package fair is a queue that takes turns: jobs of one flow stay in order, and flows are
// served one frame each, so that a large transfer does not hold up another flow's small one.
package fair

// Queue is not safe for concurrent use. The zero value is an empty queue.
type Queue[K comparable, J any] struct {
	flows map[K]*flow[K, J]
	ring  []*flow[K, J] // whose turn is next is first; none is empty but during a call
}

type flow[K comparable, J any] struct {
	key  K
	jobs []J
}

// Add appends a job to its flow.
func (q *Queue[K, J]) Add(key K, job J) {
	w := q.flows[key]
	if w == nil {
		if q.flows == nil {
			q.flows = make(map[K]*flow[K, J])
		}
		w = &flow[K, J]{key: key}
		q.flows[key] = w
		q.ring = append(q.ring, w)
	}
	w.jobs = append(w.jobs, job)
}

// Next is the job whose turn it is. Jobs that dead says true of are forgotten on the way. The
// job stays first in its flow until Served says that it is finished.
func (q *Queue[K, J]) Next(dead func(J) bool) (job J, ok bool) {
	for len(q.ring) > 0 {
		w := q.ring[0]
		for len(w.jobs) > 0 && dead(w.jobs[0]) {
			w.pop()
		}
		if len(w.jobs) > 0 {
			return w.jobs[0], true
		}
		q.turn()
	}
	return job, false
}

// Served ends the turn of the job that Next gave.
func (q *Queue[K, J]) Served(finished bool) {
	if finished {
		q.ring[0].pop()
	}
	q.turn()
}

// turn puts the first flow last, or takes it out where it is empty.
func (q *Queue[K, J]) turn() {
	w, last := q.ring[0], len(q.ring)-1
	copy(q.ring, q.ring[1:])
	q.ring[last] = w
	if len(w.jobs) == 0 {
		q.ring[last] = nil
		q.ring = q.ring[:last]
		delete(q.flows, w.key)
	}
}

func (w *flow[K, J]) pop() {
	var zero J
	w.jobs[0] = zero
	w.jobs = w.jobs[1:]
}
