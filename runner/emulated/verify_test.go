package emulated

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
	"kvferry/runner"
)

// TestCutsDoNotMatter cuts a prompt at random, beside other sequences in the same passes: the
// logits and every byte are those of one pass alone.
func TestCutsDoNotMatter(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		rapid.Check(t, func(t *rapid.T) {
			tokens := prompt(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 100).Draw(t, "tokens"))
			whole := start(t, name, 32)
			tables := whole.tables(0, 100)
			want := whole.mustPass(t, tables, 0, tokens)

			m := start(t, name, 64)
			other, at := prompt(7, 100), 0
			beside := m.tables(32, 100)
			logits := make([]float32, vocab)
			for done := 0; done < len(tokens); {
				n := rapid.IntRange(1, len(tokens)-done).Draw(t, "chunk")
				batch := []runner.Work{{Tokens: tokens[done : done+n], Start: done, Tables: tables, Logits: logits}}
				if at < len(other) && rapid.Bool().Draw(t, "beside") {
					batch = append(batch, runner.Work{Tokens: other[at : at+1], Start: at, Tables: beside})
					at++
				}
				if err := m.Forward(batch); err != nil {
					t.Fatal(err)
				}
				done += n
			}
			if !slices.Equal(logits, want) {
				t.Fatal("logits depend on how the prompt was cut")
			}
			for g := range m.pools {
				if n := 13 * m.layout.BlockBytes(g); !slices.Equal(m.pools[g][:n], whole.pools[g][:n]) {
					t.Fatalf("group %d: bytes depend on how the prompt was cut", g)
				}
			}
		})
	})
}

// TestEveryTokenMatters: an answer is a function of the whole prompt.
func TestEveryTokenMatters(t *testing.T) {
	tokens := prompt(3, 60)
	m := start(t, "test-window", 32)
	tables := m.tables(0, 60)
	want := m.mustPass(t, tables, 0, tokens)
	for i := range tokens {
		changed := slices.Clone(tokens)
		changed[i] = (changed[i] + 1) % vocab
		if slices.Equal(m.mustPass(t, tables, 0, changed), want) {
			t.Errorf("token %d does not matter", i)
		}
	}
	if slices.Equal(m.mustPass(t, tables, 0, tokens[:59]), want) {
		t.Error("the length does not matter")
	}
}

// TestDamageIsFound: a byte that arrived wrong, anywhere that decode sees, fails the pass and
// is named. Bytes that it does not see are no matter.
func TestDamageIsFound(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 100).Draw(t, "tokens")
			tokens := prompt(rapid.Uint64().Draw(t, "seed"), n)
			p, d := start(t, name, 32), start(t, name, 32)
			src, dst := p.tables(0, n+1), d.tables(3, n+1)
			p.mustPass(t, src, 0, tokens)
			ferry(p, d, src, dst, n)

			l := d.layout
			g := rapid.IntRange(0, len(l.Groups)-1).Draw(t, "group")
			pos := rapid.IntRange(0, n-1).Draw(t, "position")
			layer := rapid.IntRange(0, len(l.Groups[g].Layers)-1).Draw(t, "layer")
			kv, head := rapid.IntRange(0, 1).Draw(t, "kv"), rapid.IntRange(0, l.KVHeads-1).Draw(t, "head")
			at := l.HeadOffset(layer, kv, head) + pos%tpb*l.HeadDim*2 + rapid.IntRange(0, l.HeadDim*2-1).Draw(t, "byte")
			block := dst[g].Block(pos / tpb)
			d.block(g, block)[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))

			_, err := d.pass(dst, n, []int32{42})
			if w := l.Groups[g].Window; w > 0 && pos <= n-w {
				if err != nil {
					t.Fatalf("position %d is out of the window of %d: %v", pos, w, err)
				}
				return
			}
			var wrong *MismatchError
			if !errors.As(err, &wrong) {
				t.Fatalf("a wrong byte at position %d was not found: %v", pos, err)
			}
			if wrong.Block != int(block) || wrong.Group != g {
				t.Fatalf("block %d of group %d is wrong, and the error is %v", block, g, wrong)
			}
			// A damaged link shows at the row after it, too.
			if layer+kv+head > 0 && (wrong.Position != pos || wrong.Layer != l.Groups[g].Layers[layer] ||
				wrong.Head != head || wrong.V != (kv == 1)) {
				t.Fatalf("position %d, layer %d, kv %d, head %d is wrong, and the error is %v", pos, layer, kv, head, wrong)
			}
		})
	})
}

// TestWrongBlockIsFound: a block that another prompt wrote, one that nobody wrote, and two
// that changed places are found, each as consistent in itself as it may be.
func TestWrongBlockIsFound(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		const n = 5 * tpb
		for what, damage := range map[string]func(d machine, g int, t kvcache.BlockTable){
			"another prompt's": func(d machine, g int, t kvcache.BlockTable) {
				copy(d.block(g, t.Block(3)), d.block(g, 20+t.Block(3)))
			},
			"another prompt's at the end": func(d machine, g int, t kvcache.BlockTable) {
				copy(d.block(g, t.Block(4)), d.block(g, 20+t.Block(4)))
			},
			"nobody's": func(d machine, g int, t kvcache.BlockTable) { clear(d.block(g, t.Block(3))) },
			"a place further": func(d machine, g int, t kvcache.BlockTable) {
				copy(d.block(g, t.Block(3)), d.block(g, t.Block(2)))
			},
			"half of one": func(d machine, g int, t kvcache.BlockTable) {
				b := d.block(g, t.Block(3))
				clear(b[len(b)/2:])
			},
		} {
			p, d := start(t, name, 64), start(t, name, 64)
			src, other := p.tables(0, n+1), p.tables(20, n+1)
			p.mustPass(t, src, 0, prompt(1, n))
			p.mustPass(t, other, 0, prompt(2, n))
			deliver := func() {
				for g := range p.pools {
					copy(d.pools[g], p.pools[g])
				}
			}
			for g := range p.pools {
				for run := range 2 { // as it arrives, and when it was known as right before
					deliver()
					if run == 1 {
						d.mustPass(t, src, n, []int32{1})
					}
					damage(d, g, src[g])
					_, err := d.pass(src, n, []int32{1})
					var wrong *MismatchError
					if errors.As(err, &wrong) && what == "nobody's" && wrong.Why != "not a row of this model" {
						t.Errorf("nobody's block: %v", err)
					}
					if !errors.As(err, &wrong) || wrong.Group != g {
						if what == "half of one" && run == 1 {
							continue // a part of a known block is found in its turn
						}
						t.Errorf("%s, group %d, run %d: the error is %v", what, g, run, err)
					}
					deliver()
					d.mustPass(t, src, n, []int32{1}) // what is right again is used again
				}
			}
		}
	})
}

// TestGroupsMustAgree: each group holds a prompt in order, and not the same one.
func TestGroupsMustAgree(t *testing.T) {
	const n = 30
	d := start(t, "test-window", 32)
	one, two := d.tables(0, n+1), d.tables(8, n+1)
	d.mustPass(t, one, 0, prompt(1, n))
	d.mustPass(t, two, 0, prompt(2, n))
	_, err := d.pass([]kvcache.BlockTable{one[0], two[1]}, n, []int32{1})
	if wrong := new(MismatchError); !errors.As(err, &wrong) || wrong.Group != 1 {
		t.Errorf("the error is %v", err)
	}
}

// TestBlockOfAnother: a block that is known as right, but of another sequence, is wrong in this
// one's table.
func TestBlockOfAnother(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		const n = 5 * tpb
		d := start(t, name, 32)
		one, two := d.tables(0, n+1), d.tables(16, n+1)
		d.mustPass(t, one, 0, prompt(1, n))
		d.mustPass(t, two, 0, prompt(2, n))
		for g := range one {
			for i := range one[g].Blocks[:5] {
				mixed := slices.Clone(one)
				mixed[g].Blocks = slices.Clone(one[g].Blocks)
				mixed[g].Blocks[i] = two[g].Blocks[i]
				_, err := d.pass(mixed, n, []int32{1})
				visible := (i+1)*tpb > visibleFrom(n, d.layout.Groups[g].Window)
				if wrong := new(MismatchError); errors.As(err, &wrong) != visible {
					t.Errorf("group %d, block %d: %v", g, i, err)
				}
			}
		}
	})
}

// TestKnownInPart: of a block that a window cut through, only the rows that were seen are
// known, and a sequence that sees more of it has the rest read.
func TestKnownInPart(t *testing.T) {
	const n = 60
	d := start(t, "test-window", 16)
	tables := d.tables(0, n+1)
	tokens := prompt(1, n)
	d.mustPass(t, tables, 0, tokens)
	clear(d.groups[1].blocks) // as if all of it had just arrived
	d.mustPass(t, tables, n, []int32{1})
	first := visibleFrom(n, 40)
	if first%tpb < 2 {
		t.Fatalf("position %d is not within a block", first)
	}
	at := d.layout.HeadOffset(3, 0, 0) + (first-1)%tpb*d.layout.HeadDim*2
	d.block(1, tables[1].Block(first/tpb))[at] ^= 1
	d.mustPass(t, tables, n, []int32{1})
	if _, err := d.pass(tables, n-1, []int32{1}); err == nil {
		t.Error("a wrong row that was not seen before was not found")
	}
}

// TestKnownBefore: rows that are known from a shorter prompt, and that a longer one's window
// has left behind, bring no others with them.
func TestKnownBefore(t *testing.T) {
	const n = 60
	p, d := start(t, "test-window", 16), start(t, "test-window", 16)
	tables := d.tables(0, n+1)
	tokens := prompt(1, n)
	p.mustPass(t, tables, 0, tokens)
	first := visibleFrom(n, 40)
	d.mustPass(t, tables, 0, tokens[:first-2])
	ferry(p, d, tables, tables, n)
	at := d.layout.HeadOffset(3, 0, 0) + (first-1)%tpb*d.layout.HeadDim*2
	d.block(1, tables[1].Block(first/tpb))[at] ^= 1 // just out of the window
	d.mustPass(t, tables, n, []int32{1})
}

// TestReadOnce: what was written or read once is known.
func TestReadOnce(t *testing.T) {
	const n = 21
	p, d := start(t, "test", 8), start(t, "test", 8)
	tables := p.tables(0, n+1)
	known := func(m machine) (rows []int) {
		s := span{to: tpb, before: m.root, linked: true}
		for _, b := range tables[0].Blocks {
			rows = append(rows, m.groups[0].covers(int(b), s))
			links, _ := m.groups[0].at(int(b))
			s.before = links[tpb-1]
		}
		return rows
	}
	p.mustPass(t, tables, 0, prompt(2, n)) // whose blocks these were before
	p.mustPass(t, tables, 0, prompt(1, 10))
	if got := known(p)[:2]; !slices.Equal(got, []int{8, 2}) {
		t.Errorf("10 tokens written: rows %v are known", got)
	}
	p.mustPass(t, tables, 10, prompt(1, n)[10:])
	if got := known(p); !slices.Equal(got, []int{8, 8, 5}) {
		t.Errorf("%d tokens written: rows %v are known", n, got)
	}
	ferry(p, d, tables, tables, n)
	d.mustPass(t, tables, n, []int32{1})
	if got := known(d); !slices.Equal(got, []int{8, 8, 6}) {
		t.Errorf("%d tokens read and one written: rows %v are known", n, got)
	}
}

// TestKnownDamageIsFoundInTurn: every byte of a block that is known is read again after a
// while.
func TestKnownDamageIsFoundInTurn(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		const n = 3 * tpb
		d := start(t, name, 8)
		tables := d.tables(0, n+1)
		d.mustPass(t, tables, 0, prompt(1, n))
		d.block(0, tables[0].Block(1))[d.layout.BlockBytes(0)/2+3] ^= 1
		turns := len(d.groups[0].keys) * tpb
		for range turns {
			if _, err := d.pass(tables, n, []int32{1}); err != nil {
				return
			}
		}
		t.Errorf("not found in %d passes", turns)
	})
}

// TestBlocksChangeOwners: sequences that share beginnings take each other's blocks again and
// again, received and computed, and none is taken for wrong.
func TestBlocksChangeOwners(t *testing.T) {
	both(t, func(t *testing.T, name string) {
		rapid.Check(t, func(t *rapid.T) {
			p, d := start(t, name, 16), start(t, name, 16)
			for range rapid.IntRange(2, 12).Draw(t, "sequences") {
				n := rapid.IntRange(1, 60).Draw(t, "tokens")
				tokens := prompt(1, n)
				for i := rapid.IntRange(0, n).Draw(t, "shared"); i < n; i++ {
					tokens[i] = rapid.Int32Range(0, vocab-1).Draw(t, "token")
				}
				src, dst := p.tables(rapid.IntRange(0, 5).Draw(t, "from"), n+4), d.tables(rapid.IntRange(0, 5).Draw(t, "to"), n+4)
				cut := rapid.IntRange(0, n-1).Draw(t, "cut")
				if cut > 0 {
					p.mustPass(t, src, 0, tokens[:cut])
				}
				p.mustPass(t, src, cut, tokens[cut:])
				ferry(p, d, src, dst, n)
				for i := range 3 {
					next := []int32{rapid.Int32Range(0, vocab-1).Draw(t, "next")}
					want := p.mustPass(t, src, n+i, next)
					if !slices.Equal(d.mustPass(t, dst, n+i, next), want) {
						t.Fatal("decode differs where the KV came from another engine")
					}
				}
			}
		})
	})
}
