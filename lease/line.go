package lease

// place is where a granted lease waits to expire.
type place uint8

const (
	resting place = iota // with its set, or nowhere if it is not granted
	inLine
	inHeap
)

// fifo is a doubly linked list of leases whose own instants do not descend.
type fifo struct{ front, back *entry }

func (f *fifo) push(e *entry) {
	e.prev, e.next = f.back, nil
	if f.back == nil {
		f.front = e
	} else {
		f.back.next = e
	}
	f.back = e
}

func (f *fifo) remove(e *entry) {
	if e.prev == nil {
		f.front = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		f.back = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// heap has the lease with the earliest own instant first, and of equal ones the first granted.
type heap []*entry

func (h heap) less(i, j int) bool {
	if h[i].own != h[j].own {
		return h[i].own < h[j].own
	}
	return h[i].grant < h[j].grant
}

func (h heap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}

func (h *heap) push(e *entry) {
	e.heapAt = len(*h)
	*h = append(*h, e)
	h.up(e.heapAt)
}

func (h *heap) remove(e *entry) {
	at, last := e.heapAt, len(*h)-1
	h.swap(at, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	if at < last {
		h.up(at)
		h.down(at)
	}
}

func (h heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heap) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(h) && h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
