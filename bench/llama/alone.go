//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// aloneBatch is how many tokens llama.cpp computes at once, its own default.
const aloneBatch = 512

// alone is llama.cpp with nothing around it: a context for one sequence, and a loop. Its calls are
// made on one thread.
type alone struct {
	weights llama.Model
	ctx     llama.Context
	memory  llama.Memory
	batch   llama.Batch
	vocab   int
	calls   chan func()
}

// newAlone loads the model beside the engines, the first of which has loaded the library.
func newAlone(o *options) (a *alone, err error) {
	a = &alone{calls: make(chan func())}
	go func() {
		runtime.LockOSThread()
		// It outlives its work: where a thread that had called llama.cpp ends, the process crashes.
		defer runtime.UnlockOSThread()
		for call := range a.calls {
			call()
		}
	}()
	a.do(func() { err = a.open(o) })
	if err != nil {
		a.close()
		return nil, fmt.Errorf("llama.cpp alone: %w", err)
	}
	return a, nil
}

// do makes calls on the thread and waits for them.
func (a *alone) do(call func()) {
	done := make(chan struct{})
	a.calls <- func() { call(); close(done) }
	<-done
}

func (a *alone) open(o *options) (err error) {
	m := llama.ModelDefaultParams()
	m.SetCPUOnly()
	if a.weights, err = llama.ModelLoadFromFile(o.engine.Model, m); err != nil {
		return err
	}
	p := llama.ContextDefaultParams()
	p.NCtx = uint32(o.engine.Llama.Context)
	p.NBatch, p.NUbatch, p.NSeqMax = aloneBatch, aloneBatch, 1
	p.NThreads, p.NThreadsBatch = int32(o.engine.Llama.Threads), int32(o.engine.Llama.Threads)
	p.FlashAttentionType = llama.FlashAttentionTypeEnabled
	if a.ctx, err = llama.InitFromModel(a.weights, p); err != nil {
		return err
	}
	if a.memory, err = llama.GetMemory(a.ctx); err != nil {
		return err
	}
	a.batch = llama.BatchInit(aloneBatch, 0, 1)
	a.vocab = int(llama.VocabNTokens(llama.ModelGetVocab(a.weights)))
	return nil
}

func (a *alone) close() {
	a.do(func() {
		if a.ctx != 0 {
			llama.BatchFree(a.batch)
			llama.Free(a.ctx)
		}
		if a.weights != 0 {
			llama.ModelFree(a.weights)
		}
	})
	close(a.calls)
}

// answer computes a prompt and draws so many tokens, the likeliest each time. It gives the time to
// the first one and that of all others.
func (a *alone) answer(prompt []int32, output int) (s speed, err error) {
	a.do(func() { s, err = a.generate(prompt, output) })
	return s, err
}

func (a *alone) generate(prompt []int32, output int) (speed, error) {
	began := time.Now()
	if err := llama.MemoryClear(a.memory, false); err != nil {
		return speed{}, err
	}
	var next int32
	for at := 0; at < len(prompt); at += aloneBatch {
		end := min(at+aloneBatch, len(prompt))
		var err error
		if next, err = a.decode(prompt[at:end], at, end == len(prompt)); err != nil {
			return speed{}, err
		}
	}
	first := time.Since(began)
	for i := range output - 1 {
		var err error
		if next, err = a.decode([]int32{next}, len(prompt)+i, true); err != nil {
			return speed{}, err
		}
	}
	return speed{first: first.Seconds(), rest: (time.Since(began) - first).Seconds()}, nil
}

// decode computes tokens and gives the likeliest one behind them, if that is wanted.
func (a *alone) decode(tokens []int32, at int, wanted bool) (int32, error) {
	if err := a.batch.Clear(); err != nil {
		return 0, err
	}
	for i, t := range tokens {
		if err := a.batch.Add(llama.Token(t), llama.Pos(at+i), []llama.SeqId{0}, wanted && i == len(tokens)-1); err != nil {
			return 0, err
		}
	}
	if code, err := llama.Decode(a.ctx, a.batch); err != nil || code != 0 {
		return 0, fmt.Errorf("llama_decode of %d tokens gave %d: %w", len(tokens), code, errors.Join(err))
	}
	if !wanted {
		return 0, nil
	}
	logits, err := llama.GetLogitsIth(a.ctx, int32(len(tokens)-1), a.vocab)
	if err != nil || logits == nil {
		return 0, errors.Join(errors.New("llama.cpp gave no logits"), err)
	}
	best := 0
	for v, x := range logits {
		if x > logits[best] {
			best = v
		}
	}
	return int32(best), nil
}
