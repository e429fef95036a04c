package kvcache

import "testing"

// growWindowed is a manager of one group, with a window or 0.
func growWindowed(t *testing.T, tpb, window, blocks int) *Grow {
	t.Helper()
	l := full(tpb)
	l.Groups[0].Window = window
	m, err := NewGrow(l, []int{blocks}, Options{Reuse: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// served admits a prompt, computes it a block at a time, enters it in the index and gives its
// blocks back. It tells how much of it was cached.
func (m *Grow) served(t *testing.T, tokens []int32) (cached int) {
	t.Helper()
	h, ok := m.Admit(Demand{Prompt: len(tokens), Tokens: len(tokens)}, tokens)
	if !ok {
		t.Fatalf("%v is not admitted", tokens)
	}
	cached = h.Cached
	for at := cached; at < len(tokens); {
		end := min(len(tokens), (at/m.layout.BlockTokens+1)*m.layout.BlockTokens)
		if !m.Extend(h, at, end) {
			t.Fatalf("%v has no room at %d", tokens, at)
		}
		m.Copied(h)
		m.Commit(h, tokens[:end])
		at = end
	}
	m.Give(h)
	return cached
}

// TestReuseBehindWhatIsGone: blocks that left a window are gone first, and what is behind them is
// found by their tokens all the same.
//
// req: PIPE-09
func TestReuseBehindWhatIsGone(t *testing.T) {
	m := growWindowed(t, 2, 4, 10)
	tokens := prompt(17)
	m.served(t, tokens[:16]) // 8 blocks; 0 and 1 became idle first
	other, _ := m.Admit(Demand{Prompt: 8, Tokens: 8}, []int32{90, 91, 92, 93, 94, 95, 96, 97})
	m.Extend(other, 0, 8) // takes two free blocks, and those two
	m.Give(other)
	if n := len(m.index.path(tokens)); n != 8 {
		t.Errorf("%d blocks are known by their tokens, want 8", n)
	}
	if cached := m.served(t, tokens); cached != 16 {
		t.Errorf("%d tokens are cached, want 16", cached)
	}
}

// TestReusePartBeforeWhatIsGone: where the block behind a prefix is gone, a part of another one
// that begins alike is as good, even if more of the prompt is known by its tokens.
//
// req: PIPE-09
func TestReusePartBeforeWhatIsGone(t *testing.T) {
	m := growWindowed(t, 4, 4, 6)
	m.served(t, []int32{1, 2, 3, 4, 5, 6, 99, 99})
	m.served(t, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	m.served(t, []int32{1, 2, 3, 4, 60})               // 1 to 4 is used again,
	m.served(t, []int32{1, 2, 3, 4, 5, 6, 99, 99, 60}) // and 5, 6, 99, 99; 5 to 8 is the oldest now
	other, _ := m.Admit(Demand{Prompt: 8, Tokens: 8}, []int32{70, 71, 72, 73, 74, 75, 76, 77})
	m.Extend(other, 0, 8) // takes the free block, and that one
	m.Give(other)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8, 20}
	if n := len(m.index.path(tokens)); n != 2 {
		t.Fatalf("%d blocks are known by their tokens, so this shows nothing", n)
	}
	if cached := m.served(t, tokens); cached != 6 {
		t.Errorf("%d tokens are cached, want 6", cached)
	}
}

// TestCommitWithoutBlocks: a window of one token needs no block of a prompt that fills its last
// one, so there is nothing to enter, and nothing stays.
//
// req: PIPE-36
func TestCommitWithoutBlocks(t *testing.T) {
	m := growWindowed(t, 4, 1, 4)
	h, ok := m.Admit(Demand{Prompt: 8, Tokens: 8, Arrives: 8}, prompt(8))
	if !ok || len(h.Tables[0].Blocks) != 0 {
		t.Fatalf("admitted %v, %+v", ok, h)
	}
	m.Commit(h, prompt(8))
	m.Give(h)
	if n := len(m.index.nodes); n != 1 {
		t.Errorf("%d nodes are left that lead to no block", n-1)
	}
}

// TestReuseAfterEviction: a block that held one prefix, and then another, is found for that one.
//
// req: PIPE-09
func TestReuseAfterEviction(t *testing.T) {
	m := growWindowed(t, 4, 0, 3)
	first, second := prompt(9), []int32{90, 91, 92, 93, 94, 95, 96, 97, 98}
	for i, c := range []struct {
		tokens []int32
		cached int
	}{{first, 0}, {first, 8}, {second, 0}, {second, 8}, {first, 0}, {first, 8}} {
		if cached := m.served(t, c.tokens); cached != c.cached {
			t.Errorf("prompt %d: %d tokens are cached, want %d", i, cached, c.cached)
		}
	}
}
