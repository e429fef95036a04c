// Package llamacpp runs GGUF models with llama.cpp, over the paged KV blocks of the engine: the
// blocks are the truth, and what llama.cpp holds beside them is a copy for the next pass.
//
// Before a pass, a sequence of which llama.cpp does not have exactly the tokens before the new
// ones (its KV came by a transfer, from the prefix index, or after a preemption) is assembled from
// the blocks and imported at once; the logits that follow are bit-identical to those of the run
// that computed it. Positions are imported in ascending order, as the order of cells decides the order
// of sums.
//
// The new rows go from llama.cpp's own memory to the blocks. Its graph, which a callback sees while it
// is computed, says where they are, and after each layer that this one's are there, so that a chunk
// can leave layer by layer (runner.Work.Written). That is tried against llama.cpp's states when a
// model is loaded, and watched in each pass. Where anything is otherwise than it was known, a log line
// says what, and rows are taken from states after a pass. In, rows always go by a state: llama.cpp gives
// cells to a sequence only together with rows for them, so that writing those afterwards would be one
// copy more.
//
// Layers with a window are a layer group of their own. Its blocks have every position that was
// computed, but only those that the next token sees are imported. llama.cpp keeps no more cells for
// such layers than all sequences' windows and one batch take, and no more than for the others. Where
// that is less than the context, a long sequence takes the cells of what has left its window; an
// import then has the cells in another order than the run that computed them, so that logits can
// differ in their last bits.
//
// llama.cpp keeps the sequences of the last pass and no others: whatever is not in a batch is
// dropped from its cells and imported again when it comes back. Its cells are as many as one whole
// context; works that do not fit together are computed one group after the other.
//
// Unlike the reference runner this one is not batch-invariant: llama.cpp's kernels add in an order
// that depends on how many tokens they are given, so the cut of a prompt and what shares a batch
// can change the last bits.
//
// It is built with the tag llamacpp, on Linux and macOS: its binding needs libffi when a program
// starts, whether it then uses llama.cpp or not. Load says so where it is not built.
package llamacpp
