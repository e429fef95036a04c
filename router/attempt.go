package router

import (
	"encoding/json"
	"errors"
	"fmt"

	"kvferry/openai"
)

// Times that an attempt waits, in ns.
const (
	// Grace is how long the failure of a decode engine that may only echo its prefill
	// engine's waits for that one's own words.
	Grace = 200e6
	// TimingWait is how long a complete answer is held open for the prefill engine's reply.
	TimingWait = 250e6
)

// never is the deadline of an attempt that waits for nothing but events.
const never = int64(1<<63 - 1)

// stage is how far the client's answer is.
type stage uint8

const (
	// waiting: nothing is sent to the client.
	waiting stage = iota
	// blaming: the decode leg failed, and the prefill leg has a moment to say why.
	blaming
	// streaming: the decode engine's answer is being passed on.
	streaming
	// closing: the answer is complete but for the prefill engine's timing.
	closing
	// over: the last output was given.
	over
)

// Engines is what an attempt asks of the pool when a leg has failed.
type Engines interface {
	// Other chooses a ready engine of a role that serves the request's model and is none of
	// those.
	Other(role Role, not []int) (Engine, bool)
	// Local takes one of the places for requests that decode engines have to themselves. It
	// is given back when the attempt is over.
	Local() bool
}

// Start is what an attempt begins with.
type Start struct {
	// ID is one that no other attempt has.
	ID string
	// Pair is who is asked first. Without a prefill engine, which PolicyLocal alone allows,
	// the decode engine has the request to itself.
	Pair Pair
	// Turn is the handle of the conversation's turn before, or nil. LEASE-20
	Turn json.RawMessage
}

// Attempt runs one client's request, in numbered tries. With generation_first a try is both
// legs at once. With context_first it is the prefill leg, whose reply has a handle, and then
// the decode leg, which takes it; after a decode leg's failure only that is tried again. Once
// an answer has begun nothing is, and neither is what an engine finds fault with.
// case: 12, 17
type Attempt struct {
	cfg     Config
	engines Engines
	id      string
	turn    json.RawMessage
	pair    Pair

	// try counts tries from 1. The legs know under which they were started.
	try             int
	stage           stage
	prefill, decode leg
	// asked are the engines that were tried, by role.
	asked map[Role][]int
	// handle is what holder has for a decode engine, until one took it.
	handle json.RawMessage
	holder Engine
	// local says that the decode engine has the request to itself.
	local    bool
	timing   *Timing
	blame    Failure
	deadline int64
	out      []Output
}

// NewAttempt starts a request's first try. cfg is resolved.
func NewAttempt(cfg Config, s Start, engines Engines) *Attempt {
	a := &Attempt{
		cfg: cfg, engines: engines, id: s.ID, turn: s.Turn, pair: s.Pair,
		asked: map[Role][]int{}, deadline: never,
	}
	if s.Pair.Prefill.URL == "" {
		a.goLocal(noEngine(Prefill))
		return a
	}
	a.begin()
	return a
}

// begin starts a try with a prefill engine that was not tried before.
func (a *Attempt) begin() {
	a.try++
	if a.cfg.ScheduleStyle == ContextFirst {
		a.startPrefill(Part{KV: a.askPrefill()})
		return
	}
	id := a.id
	if a.try > 1 {
		// The engines may still have the try before.
		id = fmt.Sprintf("%s-%d", a.id, a.try)
	}
	a.startDecode(Part{Disagg: &openai.Disagg{
		RequestType: openai.GenerationOnly, RequestID: id, ScheduleStyle: openai.GenerationFirst,
		CtxInfoEndpoint: a.pair.Prefill.Report.Agent,
	}})
	a.startPrefill(Part{Disagg: &openai.Disagg{
		RequestType: openai.ContextOnly, RequestID: id, ScheduleStyle: openai.GenerationFirst,
	}})
}

// askPrefill is what the prefill engine is asked for. A turn's handle that cannot be read is
// none: it only saves work.
func (a *Attempt) askPrefill() json.RawMessage {
	if kv, err := openai.PrefillLeg(a.turn); err == nil {
		return kv
	}
	kv, _ := openai.PrefillLeg(nil) // never fails
	return kv
}

func (a *Attempt) startPrefill(p Part) {
	a.prefill = leg{state: running, try: a.try}
	a.asked[Prefill] = append(a.asked[Prefill], a.pair.Prefill.Index)
	a.emit(StartPrefill{Engine: a.pair.Prefill, Try: a.try, Part: p})
}

func (a *Attempt) startDecode(p Part) {
	a.decode = leg{state: running, try: a.try}
	a.asked[Decode] = append(a.asked[Decode], a.pair.Decode.Index)
	a.emit(StartDecode{Engine: a.pair.Decode, Try: a.try, Part: p})
}

// Deadline is when Tick is wanted, in ns; the largest int64 if it is not.
func (a *Attempt) Deadline() int64 { return a.deadline }

// Outputs takes what is to be done now, in order.
func (a *Attempt) Outputs() []Output {
	out := a.out
	a.out = nil
	return out
}

// Tick is to be called when now has reached the deadline.
func (a *Attempt) Tick(now int64) {
	if now < a.deadline {
		return
	}
	switch a.stage {
	case blaming:
		a.giveUp(Decode, WhyPrefill, a.blame.answer(Decode))
	case closing:
		a.end(Finish{})
	}
}

// Step takes an event. An error means that the caller broke the order of events: a leg that
// ended twice or never began, or decode data before decode headers.
func (a *Attempt) Step(now int64, ev Event) error {
	switch ev := ev.(type) {
	case PrefillDone:
		return a.prefillDone(ev)
	case PrefillFailed:
		return a.prefillFailed(ev)
	case DecodeHeaders:
		return a.decodeHeaders(ev.Try)
	case DecodeDone:
		return a.decodeDone(now, ev.Try)
	case DecodeFailed:
		return a.decodeFailed(now, ev)
	case ClientGone:
		if a.stage != over {
			a.end(Leave{})
		}
		return nil
	}
	return fmt.Errorf("router: unknown event %T", ev)
}

func (a *Attempt) prefillDone(ev PrefillDone) error {
	live, err := a.prefill.ended(ev.Try, done)
	if !live {
		return err
	}
	a.timing = ev.Timing
	if a.cfg.ScheduleStyle == ContextFirst {
		a.handedOver(ev.Handle)
		return nil
	}
	switch a.stage {
	case blaming:
		// The prefill engine is not to blame.
		a.giveUp(Decode, WhyPrefill, a.blame.answer(Decode))
	case closing:
		a.end(Finish{Timing: a.timing})
	}
	return nil
}

// handedOver starts the decode leg with the prefill engine's handle.
func (a *Attempt) handedOver(handle json.RawMessage) {
	if handle == nil {
		f := Failure{Answer: openai.Upstream(badGateway, "the reply has no kv_transfer_params")}
		a.emit(LegFailed{Engine: a.pair.Prefill, Failure: f})
		a.afterPrefill(f)
		return
	}
	a.handle, a.holder = handle, a.pair.Prefill
	a.startDecode(Part{KV: handle})
}

// prefillFailed is acted on at once, unless the decode engine already answers: whether it has
// all that it needs, it knows itself, and a healthy stream is not cut.
func (a *Attempt) prefillFailed(ev PrefillFailed) error {
	live, err := a.prefill.ended(ev.Try, failed)
	if !live {
		return err
	}
	a.emit(LegFailed{Engine: a.pair.Prefill, Failure: ev.Failure})
	switch a.stage {
	case waiting, blaming:
		a.afterPrefill(ev.Failure)
	case closing:
		a.end(Finish{})
	}
	return nil
}

func (a *Attempt) decodeHeaders(try int) error {
	if a.decode.stale(try) {
		return nil
	}
	if a.decode.state != running || a.stage != waiting {
		return errors.New("router: decode headers come once, from a leg that runs")
	}
	a.stage = streaming
	// The decode engine has its first token: the handle is spent.
	a.handle = nil
	a.emit(Forward{})
	return nil
}

func (a *Attempt) decodeDone(now int64, try int) error {
	if a.stage == waiting && !a.decode.stale(try) {
		return errors.New("router: decode leg is done before its headers")
	}
	live, err := a.decode.ended(try, done)
	if !live {
		return err
	}
	if a.prefill.state != running {
		a.end(Finish{Timing: a.timing})
		return nil
	}
	a.stage, a.deadline = closing, now+TimingWait
	return nil
}

func (a *Attempt) decodeFailed(now int64, ev DecodeFailed) error {
	live, err := a.decode.ended(ev.Try, failed)
	if !live {
		return err
	}
	f := ev.Failure
	a.emit(LegFailed{Engine: a.pair.Decode, Failure: f})
	switch {
	case a.stage == streaming:
		a.end(Break{Err: f.answer(Decode)})
	case f.secondhand() && a.prefill.state == running:
		a.stage, a.blame, a.deadline = blaming, f, now+Grace
	default:
		a.afterDecode(f)
	}
	return nil
}

// end gives up what still runs, lets go of what nobody takes, and gives the last output.
func (a *Attempt) end(last Output) {
	a.cancel()
	if a.handle != nil {
		a.emit(Release{Engine: a.holder, Handle: a.handle})
		a.handle = nil
	}
	a.stage = over
	a.emit(last)
}

// cancel gives up the legs that run.
func (a *Attempt) cancel() {
	if a.prefill.state == running {
		a.prefill.state = cancelled
		a.emit(CancelPrefill{})
	}
	if a.decode.state == running {
		a.decode.state = cancelled
		a.emit(CancelDecode{})
	}
	a.deadline = never
}

func (a *Attempt) emit(out ...Output) { a.out = append(a.out, out...) }
