// Package runner is the contract of what runs a model: it computes tokens over
// the paged KV blocks that the engine gives it, and never owns a block.
package runner

import "kvferry/kvcache"

// Model is what an engine must know of a model before it runs it.
type Model struct {
	// Name is the model's name in the API.
	Name string
	// Hash identifies the weights (hex SHA-256 of the model file). Two engines exchange KV
	// only if theirs are equal.
	Hash string
	// Vocab is the number of logits.
	Vocab int
	// Context is the most tokens a sequence can have, prompt and output together.
	Context int
	// BOS is put before a text prompt when AddBOS.
	BOS    int32
	AddBOS bool
	// Ends are the tokens that end an answer.
	Ends []int32
	Chat Chat
}

// Chat is what a model file says of chats.
type Chat struct {
	// Template is the Jinja template that makes a prompt of messages; empty if there is none.
	Template string
	// BOS and EOS are what the template is to write for these tokens; empty if there are none.
	BOS, EOS string
	// Control has the control tokens by the texts that a template writes for them.
	Control map[string]int32
}

// Work is one sequence's share of a forward pass.
type Work struct {
	// Sequence names what the work goes on with, the same in each pass of a request. A runner
	// may keep what it computed under the name, but the blocks are the truth: the name may come
	// back with other tokens.
	Sequence string
	// Tokens are the tokens to compute; Tokens[0] is at position Start. The KV of
	// [0,Start) that the layers can see is already in the blocks.
	Tokens []int32
	Start  int
	// Tables has one block table a layer group. A group's table covers every position the
	// group's layers read or write in this pass.
	Tables []kvcache.BlockTable
	// Logits, when not nil, has Vocab elements and receives the logits after the last token.
	Logits []float32
	// Written, when not nil, is told during Forward that the KV of all of Tokens is in the blocks for
	// every layer below through, which grows from call to call. It is called by the goroutine of
	// Forward or by one that it waits for, must not block, and need not be called at all: when
	// Forward returns, every layer is written.
	Written func(through int)
}

// Tokenizer turns text into tokens and back.
type Tokenizer interface {
	// Encode gives text's tokens without BOS. Text that looks like a control token is text.
	Encode(text string) []int32
	// Bytes is the token's text, which may be part of a character; control tokens have none.
	Bytes(token int32) []byte
}

// Runner runs one model. Forward is called by one goroutine at a time.
type Runner interface {
	Model() Model
	Layout() kvcache.Layout
	Tokenizer() Tokenizer
	// Attach hands over the pools, one mapping a layer group of rank 0, then of rank 1 and so
	// on; nil where a rank holds nothing of a group (Shard.BlockBytes is 0). Each is a whole
	// number of the rank's blocks long, as many on every rank, and outlives the runner.
	Attach(pools [][]byte) error
	// Forward computes a batch: writes its KV into the blocks, and the logits asked for. A
	// token's result does not depend on what shares the batch or where its prompt was cut, but
	// for rounding where a runner says so.
	Forward(batch []Work) error
	Close() error
}
