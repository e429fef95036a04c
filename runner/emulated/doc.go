// Package emulated runs models that are not there: a forward pass takes as long as a given
// model would take on a given device, and writes real bytes into the blocks. So queues,
// transfers and pools carry the load of a 70B model on a small machine, and a byte that went
// astray is found.
//
// # The pattern
//
// Tokens form a chain: a position's link is a hash of the link before it, its token and its
// number, so it stands for the whole prompt up to there. Each row of a block (the head-dim
// elements of one layer, K or V, head and token) is filled with words that follow from the
// link, the token, and the row's layer, K or V, and head. Whoever reads a row can therefore
// tell whose it is, and that it follows on the row before it.
//
// # What is verified
//
// Before a pass uses a sequence's blocks it verifies what each layer group sees of them. The
// rows of a block that this runner has neither written nor verified for this very chain are
// read whole. Of a block that it knows two rows are read in each pass: the last one, which
// stands for all before it, and another one each time. So a block that was overwritten as a
// whole is found by the next pass, and a part of one when its turn comes. The links of every group must agree. A block that is out of the chain, or a
// row with a wrong word, fails the pass with a MismatchError.
//
// One thing cannot be seen from inside: all blocks of a sequence replaced by those of another
// prompt that is at least as long. They are in order in themselves, and give the other
// prompt's answer, which a comparison of answers shows.
//
// # Time
//
// A pass takes what a roofline says: the greater of its arithmetic at a share of the device's
// peak and its memory traffic at a share of the bandwidth, and a fixed cost. See cost.go for
// the formula and device.go for the figures. The bytes are written within that time; a pass
// whose writing takes longer than the model would ends late. Layers are reported as written one
// after the other, each when its share of the pass's time is over: a real one writes a layer's
// keys and values sooner, before it attends to them.
//
// # What comes out
//
// Logits follow from the last link alone, so an answer depends on the whole prompt and on
// nothing else, and equal prompts give equal answers at any load. Tokens are bytes, and the
// likely ones are printable ASCII.
package emulated
