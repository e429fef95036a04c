package node

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"

	"kvferry/engine"
	"kvferry/openai"
	"kvferry/openai/httpapi"
)

type decoder func(body []byte) (*openai.Request, *openai.Error)

// complete answers a completion or a chat, whole or one leg of it.
func (e *Engine) complete(w http.ResponseWriter, r *http.Request, decode decoder) {
	if !e.enter() {
		httpapi.WriteError(w, openai.Overloaded(http.StatusServiceUnavailable, "the engine is stopping"))
		return
	}
	defer e.active.Done()
	body, fail := httpapi.ReadBody(w, r)
	if fail != nil {
		httpapi.WriteError(w, fail)
		return
	}
	req, fail := decode(body)
	if fail != nil {
		httpapi.WriteError(w, fail)
		return
	}
	if (req.Disagg != nil || req.KV != nil) && !e.trusts(r) {
		httpapi.WriteError(w, untrusted())
		return
	}
	er, fail := e.request(req)
	if fail != nil {
		httpapi.WriteError(w, fail)
		return
	}
	er.Attempt = attempt(r.Header)
	if leg := r.Header.Get(httpapi.HeaderLeg); er.Hold && isID(leg) {
		er.ID = leg
	}
	if id := r.Header.Get(httpapi.HeaderRequestID); id != "" {
		w.Header().Set(httpapi.HeaderRequestID, id)
	}
	a, err := e.loop.submit(er)
	if err != nil {
		httpapi.WriteError(w, failure(err, promptParam(req)))
		return
	}
	e.answer(w, r, req, er, a)
}

// request turns an API request into the engine's.
func (e *Engine) request(req *openai.Request) (engine.Request, *openai.Error) {
	m := e.run.Model()
	if req.Model != m.Name {
		return engine.Request{}, openai.ModelNotFound(req.Model)
	}
	tokens, fail := e.tokens(req)
	if fail != nil {
		return engine.Request{}, fail
	}
	r := engine.Request{
		ID: newID(), Tokens: tokens, MaxTokens: req.MaxTokens, IgnoreEOS: req.IgnoreEOS, Stop: req.Stop,
		Sampling: engine.Sampling{Temperature: req.Temperature, TopK: req.TopK, TopP: req.TopP, Seed: seed(req)},
		Logprobs: -1,
	}
	if req.Logprobs {
		r.Logprobs = req.TopLogprobs
	}
	if d := req.Disagg; d != nil {
		r.ID, r.Peer = d.RequestID, d.CtxInfoEndpoint
		r.Leg = engine.PrefillLeg
		if d.RequestType == openai.GenerationOnly {
			r.Leg = engine.DecodeLeg
		}
	}
	if req.KV != nil {
		if fail := e.handOver(&r, req.KV); fail != nil {
			return engine.Request{}, fail
		}
	}
	return r, nil
}

// tokens is the prompt. Text begins with the model's BOS; token IDs are taken as they are.
func (e *Engine) tokens(req *openai.Request) ([]int32, *openai.Error) {
	m := e.run.Model()
	switch {
	case req.Chat:
		return e.chatTokens(req.Messages)
	case req.PromptTokens != nil:
		for i, t := range req.PromptTokens {
			if int(t) >= m.Vocab {
				return nil, openai.BadRequest("prompt", "prompt[%d] is %d and the vocabulary has %d tokens", i, t, m.Vocab)
			}
		}
		return req.PromptTokens, nil
	}
	return e.begun(e.run.Tokenizer().Encode(req.Prompt)), nil
}

// begun is a prompt with the model's BOS before it, if it wants one and there is none.
func (e *Engine) begun(tokens []int32) []int32 {
	m := e.run.Model()
	if !m.AddBOS {
		return tokens
	}
	return append([]int32{m.BOS}, tokens...)
}

func promptParam(req *openai.Request) string {
	if req.Chat {
		return "messages"
	}
	return "prompt"
}

// seed is the client's, or one that nobody can foresee.
func seed(req *openai.Request) uint64 {
	if req.Seed != nil {
		return uint64(*req.Seed)
	}
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// newID names a request that no router named.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// isID says whether a name is such that it can be nobody else's.
func isID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 16
}
