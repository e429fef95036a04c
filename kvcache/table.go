package kvcache

// BlockID is a physical block of one pool.
type BlockID int32

// BlockTable maps a request's logical blocks to physical ones in one layer
// group: Blocks[i] holds logical block First+i, that is tokens
// [(First+i)*tpb, (First+i+1)*tpb). Blocks before First are not resident.
type BlockTable struct {
	First  int
	Blocks []BlockID
}

// End is the logical block after the last resident one.
func (t BlockTable) End() int { return t.First + len(t.Blocks) }

// Block is the physical block of a resident logical block.
func (t BlockTable) Block(logical int) BlockID { return t.Blocks[logical-t.First] }
