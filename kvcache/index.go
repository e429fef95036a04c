package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Key names a block's content: the hash of its tokens and of every block before it, over a
// salt. Equal keys are equal prefixes.
type Key [32]byte

// chain is the key of a block of tokens behind prev.
func chain(prev Key, tokens []int32) Key {
	b := make([]byte, 0, len(prev)+4*len(tokens))
	b = append(b, prev[:]...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// root is the key of nothing.
func root(salt string) Key { return sha256.Sum256([]byte(salt)) }

// index finds the blocks that hold a prefix. It names only blocks whose KV is whole and right
// (PIPE-36); a block stays in it until its pool needs the room.
type index struct {
	tpb    int
	groups int
	root   Key
	nodes  map[Key]*node
}

// node is one block's worth of tokens at the end of a prefix.
type node struct {
	key      Key
	parent   *node // nil at the root
	tokens   []int32
	blocks   []BlockID // one a group; none where the group no longer has it
	children []*node
}

// none is no block.
const none BlockID = -1

func newIndex(tpb, groups int, salt string) *index {
	x := &index{tpb: tpb, groups: groups, root: root(salt), nodes: map[Key]*node{}}
	x.nodes[x.root] = &node{key: x.root}
	return x
}

// path is the nodes of tokens' whole blocks, as far as they are known. What is behind a block
// that no group has any more can still be known.
func (x *index) path(tokens []int32) []*node {
	var out []*node
	key := x.root
	for i := 0; i+x.tpb <= len(tokens); i += x.tpb {
		key = chain(key, tokens[i:i+x.tpb])
		n := x.nodes[key]
		if n == nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// add names a request's whole blocks. A block that is named already keeps its first copy.
func (x *index) add(pools []*Pool, tables []BlockTable, tokens []int32) {
	at := x.nodes[x.root]
	for i := 0; (i+1)*x.tpb <= len(tokens); i++ {
		at = x.child(at, tokens[i*x.tpb:(i+1)*x.tpb])
		for g, t := range tables {
			if i < t.First || i >= t.End() || at.blocks[g] != none {
				continue
			}
			if b := t.Block(i); pools[g].known[b] == nil {
				at.blocks[g] = b
				pools[g].known[b] = at
			}
		}
	}
	x.prune(at)
}

func (x *index) child(parent *node, tokens []int32) *node {
	key := chain(parent.key, tokens)
	if n := x.nodes[key]; n != nil {
		return n
	}
	n := &node{key: key, parent: parent, tokens: slices.Clone(tokens), blocks: make([]BlockID, x.groups)}
	for g := range n.blocks {
		n.blocks[g] = none
	}
	x.nodes[key] = n
	parent.children = append(parent.children, n)
	return n
}

// evicted forgets that a group's block holds a node.
func (x *index) evicted(n *node, g int) {
	n.blocks[g] = none
	x.prune(n)
}

// prune removes nodes that name no block and lead to none.
func (x *index) prune(n *node) {
	for n.parent != nil && len(n.children) == 0 && !slices.ContainsFunc(n.blocks, func(b BlockID) bool { return b != none }) {
		delete(x.nodes, n.key)
		n.parent.children = slices.DeleteFunc(n.parent.children, func(c *node) bool { return c == n })
		n = n.parent
	}
}

// hit is the part of a prompt that the index has.
type hit struct {
	// length is in tokens. It may end inside a block: that one is then to be copied.
	length int
	// path are the nodes of the blocks [0, ceil(length/tpb)).
	path []*node
}

// find is the longest hit of at most limit tokens: every full group has all of its blocks, and
// every window group the last window before its end.
func (x *index) find(l Layout, tokens []int32, limit int) hit {
	path := x.path(tokens[:min(len(tokens), limit)])
	best := x.whole(l, path)
	// Behind any of the whole blocks, part of one more may agree.
	for n := len(path); n >= best.length/x.tpb; n-- {
		if h := x.partial(l, path[:n], tokens, limit); h.length > best.length {
			return h
		}
	}
	return best
}

// whole is the longest hit that ends with a block of path.
func (x *index) whole(l Layout, path []*node) hit {
	for n := len(path); n > 0; n-- {
		if h := (hit{n * x.tpb, path[:n]}); x.usable(l, h) {
			return h
		}
	}
	return hit{}
}

// partial is the longest hit that ends inside a block behind path.
func (x *index) partial(l Layout, path []*node, tokens []int32, limit int) hit {
	at := x.nodes[x.root]
	if len(path) > 0 {
		at = path[len(path)-1]
	}
	start := len(path) * x.tpb
	want := tokens[start:min(len(tokens), limit, start+x.tpb)]
	var best hit
	for _, c := range at.children {
		h := hit{start + common(c.tokens, want), append(path[:len(path):len(path)], c)}
		if h.length > start && h.length > best.length && x.usable(l, h) {
			best = h
		}
	}
	return best
}

func common(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// usable reports whether every group still has the blocks that a hit needs.
func (x *index) usable(l Layout, h hit) bool {
	for g, group := range l.Groups {
		for i := StaleEnd(h.length, group.Window, x.tpb); i < len(h.path); i++ {
			if h.path[i].blocks[g] == none {
				return false
			}
		}
	}
	return true
}
