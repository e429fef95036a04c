package kvcache

import "fmt"

// LayerGroup is a set of layers that share one pool and one block table,
// because they keep the same tokens.
type LayerGroup struct {
	// Window is how many tokens a token sees, itself included; 0 is all of them.
	Window int
	// Layers are the model's layer indices, ascending.
	Layers []int
	// StateBytes, if not 0, makes the group recurrent: each layer keeps one state of this
	// size a request, which every token changes, and no KV. A request has one block of it.
	StateBytes int
}

// Recurrent reports whether the group keeps a state and no KV.
func (g LayerGroup) Recurrent() bool { return g.StateBytes > 0 }

// Layout fixes where each element of a block lies:
// [block][layer][K,V][head][token][dim], all layers of one group.
type Layout struct {
	// BlockTokens is how many tokens a block holds (tpb).
	BlockTokens int
	// KVHeads is the number of KV heads that one block holds.
	KVHeads int
	// HeadDim is the number of elements of one head's K (or V) of one token.
	HeadDim int
	DType   DType
	Groups  []LayerGroup
}

// RowBytes is the size of one head's K (or V) of one layer of one token.
func (l Layout) RowBytes() int { return l.DType.Bytes(l.HeadDim) }

// HeadBytes is the size of one head's K (or V) of one layer in one block; it is contiguous.
func (l Layout) HeadBytes() int { return l.BlockTokens * l.RowBytes() }

// LayerBytes is the size of one layer (K and V) in one block.
func (l Layout) LayerBytes() int { return 2 * l.KVHeads * l.HeadBytes() }

// BlockBytes is the size of one block of layer group g.
func (l Layout) BlockBytes(g int) int {
	if group := l.Groups[g]; group.Recurrent() {
		return len(group.Layers) * group.StateBytes
	}
	return len(l.Groups[g].Layers) * l.LayerBytes()
}

// HeadOffset is where in a block head's K (kv 0) or V (kv 1) of the group's
// layer number layer (its position in Layers) begins, in bytes.
func (l Layout) HeadOffset(layer, kv, head int) int {
	return layer*l.LayerBytes() + (kv*l.KVHeads+head)*l.HeadBytes()
}

// TotalBlocks is how many blocks n tokens take.
func (l Layout) TotalBlocks(n int) int { return ceilDiv(n, l.BlockTokens) }

// Validate reports the first field that no cache can have.
func (l Layout) Validate() error {
	switch {
	case l.BlockTokens < 1:
		return fmt.Errorf("block tokens %d: want at least 1", l.BlockTokens)
	case l.KVHeads < 1:
		return fmt.Errorf("kv heads %d: want at least 1", l.KVHeads)
	case l.HeadDim < 1:
		return fmt.Errorf("head dim %d: want at least 1", l.HeadDim)
	case !l.DType.valid():
		return fmt.Errorf("kv dtype %s: want %s", l.DType, dtypeNames)
	case l.HeadDim%l.DType.group() != 0:
		return fmt.Errorf("head dim %d: kv dtype %s stores %d values together, and they must be of one head", l.HeadDim, l.DType, l.DType.group())
	case len(l.Groups) == 0:
		return fmt.Errorf("no layer group")
	}
	for i, g := range l.Groups {
		if len(g.Layers) == 0 {
			return fmt.Errorf("layer group %d has no layer", i)
		}
		if g.Window < 0 {
			return fmt.Errorf("layer group %d: window %d is negative", i, g.Window)
		}
		if g.StateBytes < 0 || g.Recurrent() && g.Window > 0 {
			return fmt.Errorf("layer group %d: state of %d bytes with window %d", i, g.StateBytes, g.Window)
		}
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
