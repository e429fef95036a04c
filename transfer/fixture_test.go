package transfer

import (
	"kvferry/kvcache"
	"kvferry/wire"
)

// life names a process by one letter.
func life(name string) (l wire.Life) {
	if name != "" {
		l[0] = name[0]
	}
	return l
}

func lifeName(l wire.Life) string {
	if l == (wire.Life{}) {
		return "nobody"
	}
	return string(l[:1])
}

// layoutOf has a layer group a window, whose block takes 4 bytes a token.
func layoutOf(tpb int, windows ...int) kvcache.Layout {
	l := kvcache.Layout{BlockTokens: tpb, KVHeads: 1, HeadDim: 1, DType: kvcache.F16}
	for i, w := range windows {
		l.Groups = append(l.Groups, kvcache.LayerGroup{Window: w, Layers: []int{i}})
	}
	return l
}

// layered gives each group n layers, which take turns in the model.
func layered(l kvcache.Layout, n int) kvcache.Layout {
	for g := range l.Groups {
		for i := 1; i < n; i++ {
			l.Groups[g].Layers = append(l.Groups[g].Layers, i*len(l.Groups)+g)
		}
	}
	return l
}

// Block numbers tell their group and logical block: on the sender 100*group + logical, on the
// receiver 50 more.
func srcBlock(group, logical int) kvcache.BlockID { return kvcache.BlockID(100*group + logical) }
func dstBlock(group, logical int) kvcache.BlockID { return srcBlock(group, logical) + 50 }

// blocksOf is how many blocks of a group tokens take: a state takes one.
func blocksOf(l kvcache.Layout, g, tokens int) int {
	if l.Groups[g].Recurrent() {
		return 1
	}
	return l.TotalBlocks(tokens)
}

// srcTables is a prompt reserved whole.
func srcTables(l kvcache.Layout, prompt int) []kvcache.BlockTable {
	var tables []kvcache.BlockTable
	for g := range l.Groups {
		var t kvcache.BlockTable
		for b := range blocksOf(l, g, prompt) {
			t.Blocks = append(t.Blocks, srcBlock(g, b))
		}
		tables = append(tables, t)
	}
	return tables
}

// dstTables is what a receiver reserves: the final window, and room for tokens in all.
func dstTables(l kvcache.Layout, prompt, tokens int) []kvcache.BlockTable {
	var tables []kvcache.BlockTable
	for g, group := range l.Groups {
		t := kvcache.BlockTable{First: kvcache.StaleEnd(prompt, group.Window, l.BlockTokens)}
		for b := t.First; b < blocksOf(l, g, tokens); b++ {
			t.Blocks = append(t.Blocks, dstBlock(g, b))
		}
		tables = append(tables, t)
	}
	return tables
}

// dstLists is dstTables as a registration carries it.
func dstLists(l kvcache.Layout, prompt int) [][]int32 {
	var lists [][]int32
	for _, t := range dstTables(l, prompt, prompt) {
		list := []int32{}
		for _, b := range t.Blocks {
			list = append(list, int32(b))
		}
		lists = append(lists, list)
	}
	return lists
}

// pools is big enough for every block that the functions above name.
func pools(l kvcache.Layout) []int {
	var n []int
	for g := range l.Groups {
		n = append(n, 100*g+100)
	}
	return n
}

// tokensOf is a prompt of n tokens.
func tokensOf(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	return tokens
}
