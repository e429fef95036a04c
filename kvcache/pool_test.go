package kvcache

import (
	"testing"

	"pgregory.net/rapid"
)

// TestPool takes and gives at random beside a set of what is out.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 12).Draw(t, "total")
		p := NewPool(total)
		owner := map[BlockID]int{}
		var loans [][]BlockID
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.IntRange(0, 14).Draw(t, "n")
				got, ok := p.Take(n)
				if ok != (n <= total-len(owner)) {
					t.Fatalf("%d of %d free: ok is %v", n, total-len(owner), ok)
				}
				if !ok && got != nil || ok && len(got) != n {
					t.Fatalf("wanted %d, ok %v, got %v", n, ok, got)
				}
				for _, b := range got {
					if _, out := owner[b]; out || b < 0 || int(b) >= total {
						t.Fatalf("block %d of a pool of %d is handed out while %v are out", b, total, owner)
					}
					owner[b] = len(loans)
				}
				if ok {
					loans = append(loans, got)
				}
			},
			"give": func(t *rapid.T) {
				if len(loans) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(loans)-1).Draw(t, "loan")
				p.Give(loans[i])
				for _, b := range loans[i] {
					delete(owner, b)
				}
				loans = append(loans[:i], loans[i+1:]...)
			},
			"": func(t *rapid.T) {
				if p.Total() != total || p.Free() != total-len(owner) {
					t.Fatalf("total %d, free %d: want %d and %d", p.Total(), p.Free(), total, total-len(owner))
				}
			},
		})
	})
}

// TestPoolGiveTwice: a block given back twice would be two requests' at once.
func TestPoolGiveTwice(t *testing.T) {
	p := NewPool(3)
	got, _ := p.Take(2)
	p.Give(got[:1])
	defer func() {
		if recover() == nil {
			t.Error("a block was given back twice and nothing panicked")
		}
		if p.Free() != 2 {
			t.Errorf("%d blocks are free after it, want 2", p.Free())
		}
	}()
	p.Give(got[:1])
}

// TestPoolKeepsItsList: what the caller does with a list of blocks is no matter of the pool's.
func TestPoolKeepsItsList(t *testing.T) {
	p := NewPool(4)
	a, _ := p.Take(2)
	b, _ := p.Take(2)
	_ = append(a, 99)
	a[0], a[1] = a[1], a[0]
	p.Give(a)
	p.Give(b)
	if got, ok := p.Take(4); !ok || len(got) != 4 {
		t.Errorf("took %v, %v", got, ok)
	}
}
