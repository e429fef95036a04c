package bpe

import "container/heap"

// symbol is a piece of a word while it is merged, in a list by index.
type symbol struct {
	token      int32
	prev, next int
}

// candidate is a merge that was possible when it was put in the queue.
type candidate struct {
	merge
	left, right         int
	leftToken, rightTok int32
}

// queue gives the best merge first, of equal ones the leftmost.
type queue []candidate

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if q[i].rank != q[j].rank {
		return q[i].rank < q[j].rank
	}
	return q[i].left < q[j].left
}
func (q *queue) Push(x any) { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// encodeWord appends the tokens of one word. It takes n log n steps, because a word can
// be as long as a client likes.
func (t *Tokenizer) encodeWord(word string, out []int32) []int32 {
	symbols := make([]symbol, len(word))
	var q queue
	for i := range symbols {
		symbols[i] = symbol{t.first[word[i]], i - 1, i + 1}
		if i > 0 {
			q = t.candidate(q, symbols, i-1, i)
		}
	}
	heap.Init(&q)
	for len(q) > 0 {
		c := heap.Pop(&q).(candidate)
		l, r := &symbols[c.left], &symbols[c.right]
		// A symbol that was merged away since has another token now.
		if l.token != c.leftToken || r.token != c.rightTok || l.next != c.right {
			continue
		}
		l.token = c.token
		l.next = r.next
		r.token = none
		if l.next < len(symbols) {
			symbols[l.next].prev = c.left
			q = t.push(q, symbols, c.left, l.next)
		}
		if l.prev >= 0 {
			q = t.push(q, symbols, l.prev, c.left)
		}
	}
	for i := 0; i < len(symbols); i = symbols[i].next {
		if symbols[i].token != none {
			out = append(out, symbols[i].token)
		}
	}
	return out
}

// candidate appends the merge of two neighbours, if there is one.
func (t *Tokenizer) candidate(q queue, symbols []symbol, left, right int) queue {
	l, r := symbols[left].token, symbols[right].token
	if m, ok := t.merges[pair{l, r}]; ok {
		q = append(q, candidate{m, left, right, l, r})
	}
	return q
}

func (t *Tokenizer) push(q queue, symbols []symbol, left, right int) queue {
	n := len(q)
	if q = t.candidate(q, symbols, left, right); len(q) > n {
		heap.Fix(&q, n)
	}
	return q
}
