package e2etest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"kvferry/engine"
	"kvferry/node"
)

// References are aggregated engines whose answers others must equal. They are started when
// first asked, one for each model, block size and KV type, and remember what they answered.
type References struct {
	mu      sync.Mutex
	engines map[string]*reference
}

type reference struct {
	*Client
	engine  *node.Engine
	answers map[string]*Answer
}

// Answer is the aggregated engine's answer to a request.
func (r *References) Answer(t testing.TB, cfg node.EngineConfig, req Request) *Answer {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, err := r.get(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req.Stream = false
	key := req.path() + string(req.body(ref.Model))
	if a := ref.answers[key]; a != nil {
		return a
	}
	a, err := ref.Complete(context.Background(), req)
	if err != nil {
		t.Fatalf("the aggregated engine: %v", err)
	}
	ref.answers[key] = a
	return a
}

func (r *References) get(cfg node.EngineConfig) (*reference, error) {
	key := fmt.Sprintf("%s/%d/%s", cfg.Model, cfg.BlockTokens, cfg.KVDType)
	if ref := r.engines[key]; ref != nil {
		return ref, nil
	}
	own := Config()
	own.Role = engine.Aggregated
	own.Model, own.BlockTokens, own.KVDType = cfg.Model, cfg.BlockTokens, cfg.KVDType
	e, err := node.StartEngine(own)
	if err != nil {
		return nil, err
	}
	if r.engines == nil {
		r.engines = map[string]*reference{}
	}
	ref := &reference{Client: NewClient(e.Addr(), modelName(cfg.Model)), engine: e, answers: map[string]*Answer{}}
	r.engines[key] = ref
	return ref, nil
}

// Close stops the engines. It gives an error for one that is not idle.
func (r *References) Close() error {
	var err error
	for key, ref := range r.engines {
		one := &Engine{Engine: ref.engine, Client: ref.Client}
		if held := one.Idle(); held != nil {
			err = fmt.Errorf("aggregated engine %s: %w", key, held)
		}
		ref.Close()
		ref.engine.Stop(ended())
	}
	return err
}
