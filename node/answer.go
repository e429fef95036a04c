package node

import (
	"fmt"
	"net/http"
	"time"

	"kvferry/engine"
	"kvferry/openai"
	"kvferry/openai/httpapi"
)

// answer sends what the engine makes of a request, until it ends or the client leaves. The
// status is decided by the first thing that comes: a token, or the end.
func (e *Engine) answer(w http.ResponseWriter, r *http.Request, req *openai.Request, er engine.Request, a *answer) {
	s := &sender{e: e, w: w, req: req, model: e.run.Model().Name, leg: er.Leg, host: r.Host, read: er.Leg == engine.DecodeLeg && er.Pull != nil}
	if s.read {
		w.Header().Set("Trailer", httpapi.TrailerTurn+", "+trailerTiming)
	}
	s.enc = openai.NewEncoder(req, answerID(req, er.ID), time.Now().Unix(), s.model)
	for {
		select {
		case <-r.Context().Done():
			e.loop.abort(er.ID, errClientGone)
			return
		case <-e.loop.stopped:
			s.fail(failure(errStopped, ""))
			return
		case <-a.ready:
		}
		for _, o := range a.take() {
			switch o := o.(type) {
			case engine.Token:
				s.token(o)
			case engine.Finish:
				s.finish(o)
				return
			}
		}
	}
}

func answerID(req *openai.Request, id string) string {
	if req.Chat {
		return "chatcmpl-" + id
	}
	return "cmpl-" + id
}

// sender writes one answer in the form that the client asked for.
type sender struct {
	e      *Engine
	w      http.ResponseWriter
	req    *openai.Request
	enc    *openai.Encoder
	model  string
	leg    engine.Leg
	host   string // by which the router reached us
	read   bool   // the KV was read by a handle
	text   openai.TextBuffer
	whole  openai.Piece // of an answer that is not streamed
	begun  bool         // the stream's headers are out
	logged []openai.TokenLogprob
}

// token adds a token to the answer. Text may lag behind; its logprobs go with the next text.
func (s *sender) token(t engine.Token) {
	if s.req.Logprobs {
		s.logged = append(s.logged, s.logprob(t.Sampled))
	}
	s.piece(s.text.Push(t.Text), false)
}

// piece sends or keeps text. The first one begins a stream even if it is empty, so that the
// client sees the first token's time.
func (s *sender) piece(text string, last bool) {
	p := openai.Piece{Text: text, Tokens: s.logged}
	s.logged = nil
	if !s.req.Stream {
		s.whole.Text += p.Text
		s.whole.Tokens = append(s.whole.Tokens, p.Tokens...)
		return
	}
	if s.begun && p.Text == "" && len(p.Tokens) == 0 || last && p.Text == "" {
		return
	}
	s.begin()
	s.event(s.enc.Delta(p))
}

func (s *sender) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-cache")
	s.w.WriteHeader(http.StatusOK)
}

// event sends a stream's event at once. A client that left is noticed by its context.
func (s *sender) event(payload []byte) {
	_ = openai.WriteEvent(s.w, payload)
	_ = http.NewResponseController(s.w).Flush()
}

// finish ends the answer.
func (s *sender) finish(f engine.Finish) {
	if f.Err != nil {
		s.fail(failure(f.Err, promptParam(s.req)))
		return
	}
	switch {
	case s.leg == engine.PrefillLeg && f.Handle != nil:
		s.handle(f)
		return
	case s.leg == engine.PrefillLeg:
		httpapi.WriteJSON(s.w, http.StatusOK, prefillReply(f))
		return
	}
	defer s.trailers(f)
	s.piece(s.text.Push(f.Text)+s.text.Flush(), true)
	usage := openai.NewUsage(f.Prompt, f.Completion, f.Cached)
	reason := openai.FinishReason(f.Reason)
	if !s.req.Stream {
		s.w.Header().Set("Content-Type", "application/json")
		_, _ = s.w.Write(s.enc.Full(s.whole, reason, usage))
		return
	}
	s.begin()
	for _, payload := range s.enc.Final(reason, usage) {
		s.event(payload)
	}
	_ = openai.WriteDone(s.w)
	_ = http.NewResponseController(s.w).Flush()
}

// trailerTiming says what reading the KV took.
const trailerTiming = "Server-Timing"

// trailers follow an answer whose KV was read: the turn that is kept, and what the read took.
func (s *sender) trailers(f engine.Finish) {
	if f.Handle != nil {
		s.w.Header().Set(httpapi.TrailerTurn, s.e.turnTrailer(f.Handle, s.host))
	}
	if t := f.Transfer; s.read && t.Busy > 0 {
		ms := func(ns int64) float64 { return float64(ns) / 1e6 }
		s.w.Header().Set(trailerTiming, fmt.Sprintf("transfer_hidden;dur=%.3f, transfer_exposed;dur=%.3f", ms(t.Hidden), ms(t.Exposed)))
	}
}

// handle answers a prefill leg whose KV is held: one token, as engines of this kind do, and the
// handle.
func (s *sender) handle(f engine.Finish) {
	kv, err := s.e.giveHandle(f.Handle, s.host)
	if err != nil {
		s.fail(openai.Internal("%s", err))
		return
	}
	var p openai.Piece
	if f.First != nil {
		p.Text = s.text.Push(s.e.run.Tokenizer().Bytes(f.First.Token)) + s.text.Flush()
		if s.req.Logprobs {
			p.Tokens = []openai.TokenLogprob{s.logprob(*f.First)}
		}
	}
	s.w.Header().Set("Content-Type", "application/json")
	_, _ = s.w.Write(s.enc.FullKV(p, openai.FinishReason(engine.FinishLength), openai.NewUsage(f.Prompt, 1, f.Cached), kv))
}

// fail answers with a status if none is out yet, and with an event in the stream otherwise.
func (s *sender) fail(err *openai.Error) {
	if !s.begun {
		httpapi.WriteError(s.w, err)
		return
	}
	_ = openai.WriteError(s.w, err)
	_ = http.NewResponseController(s.w).Flush()
}

func (s *sender) logprob(t engine.Sampled) openai.TokenLogprob {
	bytes := s.e.run.Tokenizer().Bytes
	out := openai.TokenLogprob{Bytes: bytes(t.Token), Logprob: float64(t.Logprob)}
	for _, alt := range t.Top {
		out.Top = append(out.Top, openai.Alternative{Bytes: bytes(alt.Token), Logprob: float64(alt.Logprob)})
	}
	return out
}

// PrefillReply is what a prefill leg answers: no text, but what the transfer took.
type PrefillReply struct {
	Object  string          `json:"object"`
	Usage   openai.Usage    `json:"usage"`
	Kvferry TransferFigures `json:"kvferry"`
}

// TransferFigures are a transfer's times in seconds and its size (PIPE-27).
type TransferFigures struct {
	Prefill  float64 `json:"prefill_seconds"`
	Transfer float64 `json:"transfer_seconds"`
	Hidden   float64 `json:"hidden_seconds"`
	Exposed  float64 `json:"exposed_seconds"`
	Bytes    uint64  `json:"bytes"`
	Slices   int     `json:"slices"`
}

func prefillReply(f engine.Finish) PrefillReply {
	sec := func(ns int64) float64 { return time.Duration(ns).Seconds() }
	t := f.Transfer
	return PrefillReply{
		Object: "kvferry.prefill",
		Usage:  openai.NewUsage(f.Prompt, 0, f.Cached),
		Kvferry: TransferFigures{
			Prefill: sec(f.Prefill), Transfer: sec(t.Busy), Hidden: sec(t.Hidden), Exposed: sec(t.Exposed),
			Bytes: t.Bytes, Slices: t.Slices,
		},
	}
}
