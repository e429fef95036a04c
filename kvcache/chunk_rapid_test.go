package kvcache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestChunksTile cuts random prompts anywhere, after a random prefix hit, with preemptions
// that move the cursor back, and follows token by token what is filled.
//
// req: PIPE-03
// req: PIPE-04
func TestChunksTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompt := rapid.IntRange(1, 120).Draw(t, "prompt")
		tpb := rapid.IntRange(1, 17).Draw(t, "tpb")
		total := (prompt + tpb - 1) / tpb

		filled := rapid.IntRange(0, prompt-1).Draw(t, "hit")
		first, preemptions, sent := true, 3, 0
		for {
			c := Chunk{Start: filled, First: first}
			c.End = rapid.IntRange(filled+1, prompt).Draw(t, "end")
			c.Last = c.End == prompt
			filled, first = c.End, false

			s, due := ChunkSpan(c, prompt, tpb, sent)
			if s.Start != sent {
				t.Fatalf("%+v sends %v when [0,%d) has left", c, s, sent)
			}
			if due != (c.Last || s.Len() > 0) {
				t.Fatalf("%+v with blocks %v: due is %v", c, s, due)
			}
			for b := s.Start; b < s.End; b++ {
				if min((b+1)*tpb, prompt) > filled {
					t.Fatalf("%+v sends block %d, and only %d tokens are filled", c, b, filled)
				}
			}
			sent = max(sent, s.End)
			if c.Last {
				break
			}
			if preemptions > 0 && rapid.IntRange(0, 4).Draw(t, "preempt") == 0 {
				preemptions--
				// What is computed again begins at 0 or at what the prefix index still has.
				filled, first = rapid.IntRange(0, filled).Draw(t, "back"), true
			}
		}
		if sent != total {
			t.Fatalf("blocks [0,%d) of %d have left", sent, total)
		}
	})
}

// TestProjectOracle compares with a map from logical to physical blocks.
//
// req: PIPE-05
func TestProjectOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.IntRange(0, 30).Draw(t, "end")
		n := rapid.IntRange(0, end).Draw(t, "resident")
		span := Span{rapid.IntRange(0, 35).Draw(t, "from"), rapid.IntRange(0, 35).Draw(t, "to")}
		where := map[int]BlockID{}
		var list []BlockID
		for b := end - n; b < end; b++ {
			where[b] = BlockID(1000 - 7*b)
			list = append(list, where[b])
		}
		var want []BlockID
		for b := span.Start; b < span.End; b++ {
			if id, ok := where[b]; ok {
				want = append(want, id)
			}
		}
		if got := Project(list, end, span); !slices.Equal(got, want) {
			t.Fatalf("blocks %v of a list of %d that ends at %d: %v, want %v", span, n, end, got, want)
		}
	})
}

// TestStaleEndByToken derives from the definition of a window which blocks the next token
// still needs.
//
// req: PIPE-08
func TestStaleEndByToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompt := rapid.IntRange(1, 200).Draw(t, "prompt")
		window := rapid.IntRange(0, 220).Draw(t, "window")
		tpb := rapid.IntRange(1, 20).Draw(t, "tpb")
		needed := func(block int) bool {
			for pos := block * tpb; pos < (block+1)*tpb; pos++ {
				if window == 0 || prompt-pos < window { // the next token is at position prompt
					return true
				}
			}
			return false
		}
		want := 0
		for !needed(want) {
			want++
		}
		if got := StaleEnd(prompt, window, tpb); got != want {
			t.Fatalf("stale end %d, want %d", got, want)
		}
	})
}
