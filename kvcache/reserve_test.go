package kvcache

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// twoGroups is a layout with a full group and one with a window of 9 tokens.
func twoGroups(tpb int) Layout {
	return Layout{
		BlockTokens: tpb, KVHeads: 1, HeadDim: 1, DType: F16,
		Groups: []LayerGroup{{Layers: []int{5}}, {Window: 9, Layers: []int{0, 1}}},
	}
}

// TestReserveTake shows what each kind of request takes of each group.
//
// req: PIPE-07
func TestReserveTake(t *testing.T) {
	for _, c := range []struct {
		name   string
		demand Demand
		first  [2]int
		blocks [2]int
	}{
		{"a prompt that is computed here needs all of it", Demand{Prompt: 21, Tokens: 21}, [2]int{0, 0}, [2]int{6, 6}},
		{"and room for what is decoded", Demand{Prompt: 21, Tokens: 30}, [2]int{0, 0}, [2]int{8, 8}},
		{"one that arrives needs the final window only", Demand{Prompt: 21, Tokens: 30, Arrives: 21}, [2]int{0, 3}, [2]int{8, 5}},
		{"one token", Demand{Prompt: 1, Tokens: 1, Arrives: 1}, [2]int{0, 0}, [2]int{1, 1}},
	} {
		r, err := NewReserve(twoGroups(4), []int{20, 20}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, ok := r.Admit(c.demand, prompt(c.demand.Prompt))
		if !ok {
			t.Fatalf("%s: nothing taken", c.name)
		}
		for g, table := range h.Tables {
			if table.First != c.first[g] || len(table.Blocks) != c.blocks[g] {
				t.Errorf("%s: group %d has %d blocks from %d on, want %d from %d on",
					c.name, g, len(table.Blocks), table.First, c.blocks[g], c.first[g])
			}
		}
		r.Give(h)
		if total, free := r.Count(); total != 40 || free != 40 {
			t.Errorf("%s: %d of %d blocks are free after it", c.name, free, total)
		}
	}
}

// TestReserveAllOrNothing: a group that is short keeps every other group's blocks where
// they are.
func TestReserveAllOrNothing(t *testing.T) {
	r, _ := NewReserve(twoGroups(4), []int{10, 3}, Options{})
	d := Demand{Prompt: 16, Tokens: 16}
	if h, ok := r.Admit(d, prompt(d.Prompt)); ok {
		t.Fatalf("took %v of pools of 10 and 3", h.Tables)
	}
	if _, free := r.Count(); free != 13 {
		t.Errorf("%d blocks are free, want 13", free)
	}
	err := r.Fits(d)
	if err == nil || !strings.Contains(err.Error(), "4 blocks of layer group 1, which has 3") {
		t.Errorf("fits: %v", err)
	}
	if err := r.Fits(Demand{Prompt: 12, Tokens: 12}); err != nil {
		t.Errorf("12 tokens do fit: %v", err)
	}
}

func TestNewReserveRefuses(t *testing.T) {
	bad := twoGroups(4)
	bad.BlockTokens = 0
	for _, c := range []struct {
		layout Layout
		blocks []int
		want   string
	}{
		{bad, []int{1, 1}, "block tokens 0"},
		{twoGroups(4), []int{1}, "1 pool sizes for 2 layer groups"},
		{twoGroups(4), []int{1, 0}, "layer group 1 has 0 blocks"},
	} {
		if _, err := NewReserve(c.layout, c.blocks, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("pools %v: %v, want %q", c.blocks, err, c.want)
		}
	}
}

// TestReserveNeverShares admits and releases at random.
func TestReserveNeverShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layout := twoGroups(rapid.IntRange(1, 5).Draw(t, "tpb"))
		sizes := []int{rapid.IntRange(1, 20).Draw(t, "full"), rapid.IntRange(1, 20).Draw(t, "window")}
		r, err := NewReserve(layout, sizes, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var held []*Holding
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				d := Demand{Prompt: rapid.IntRange(1, 40).Draw(t, "prompt")}
				d.Arrives = rapid.IntRange(0, d.Prompt).Draw(t, "arrives")
				d.Tokens = d.Prompt + rapid.IntRange(0, 20).Draw(t, "output")
				fits := r.Fits(d)
				h, ok := r.Admit(d, prompt(d.Prompt))
				if ok && fits != nil {
					t.Fatalf("%+v does not fit (%v) and was taken", d, fits)
				}
				if !ok && fits == nil && len(held) == 0 {
					t.Fatalf("%+v fits and was not taken of empty pools", d)
				}
				if ok {
					held = append(held, h)
				}
			},
			"give": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				r.Give(held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"": func(t *rapid.T) {
				out := 0
				for g := range sizes {
					seen := map[BlockID]bool{}
					for _, h := range held {
						for _, b := range h.Tables[g].Blocks {
							if seen[b] {
								t.Fatalf("block %d of group %d is held twice", b, g)
							}
							seen[b] = true
							out++
						}
					}
				}
				if total, free := r.Count(); total != sizes[0]+sizes[1] || free != total-out {
					t.Fatalf("%d of %d are free and %d are held", free, total, out)
				}
			},
		})
	})
}

// prompt is n tokens.
func prompt(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}
