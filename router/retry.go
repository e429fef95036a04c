package router

import "kvferry/openai"

// maxDecodeTries is how many decode engines one handle is tried on.
const maxDecodeTries = 3

// afterPrefill does what the policy says once a prefill leg has failed and no answer has begun.
// case: 12
func (a *Attempt) afterPrefill(f Failure) {
	err := f.answer(Prefill)
	switch {
	case f.refused():
		a.giveUp(Prefill, WhyRefused, err)
	case a.cfg.PrefillFailurePolicy == PolicyOther:
		a.otherPrefill(err)
	case a.cfg.PrefillFailurePolicy == PolicyLocal:
		a.goLocal(err)
	default:
		a.giveUp(Prefill, WhyPolicy, err)
	}
}

// otherPrefill tries another prefill engine. With generation_first the decode leg ends with the
// try, since it waits for the engine that failed; its engine is asked again under a new ID.
func (a *Attempt) otherPrefill(err *openai.Error) {
	if len(a.asked[Prefill]) >= a.cfg.PrefillTries {
		a.giveUp(Prefill, WhyTries, err)
		return
	}
	e, ok := a.engines.Other(Prefill, a.asked[Prefill])
	if !ok {
		a.giveUp(Prefill, WhyNoEngine, err)
		return
	}
	a.retry(Prefill, PolicyOther)
	a.pair.Prefill = e
	a.begin()
}

// goLocal gives the request to the decode engine, prompt and all.
func (a *Attempt) goLocal(err *openai.Error) {
	if !a.engines.Local() {
		a.giveUp(Prefill, WhyLocalCap, openai.Overloaded(unavailable,
			"%s; decode engines compute as many prompts as they may already", err.Message))
		return
	}
	a.retry(Prefill, PolicyLocal)
	a.local, a.timing = true, nil
	a.try++
	a.startDecode(Part{})
}

// afterDecode tries another decode engine with the handle that prefill gave, if it gave one:
// what is computed is never computed again.
// case: 17
func (a *Attempt) afterDecode(f Failure) {
	err := f.answer(Decode)
	switch {
	case f.refused():
		a.giveUp(Decode, WhyRefused, err)
		return
	case a.local:
		a.giveUp(Decode, WhyLocal, err)
		return
	case a.handle == nil:
		a.giveUp(Decode, WhyPrefill, err)
		return
	case len(a.asked[Decode]) >= maxDecodeTries:
		a.giveUp(Decode, WhyTries, err)
		return
	}
	e, ok := a.engines.Other(Decode, a.asked[Decode])
	if !ok {
		a.giveUp(Decode, WhyNoEngine, err)
		return
	}
	a.retry(Decode, SameHandle)
	a.pair.Decode = e
	a.try++
	a.startDecode(Part{KV: a.handle})
}

// retry ends a try for another one.
func (a *Attempt) retry(leg Role, how string) {
	a.cancel()
	a.stage = waiting
	a.emit(Retry{Leg: leg, How: how})
}

func (a *Attempt) giveUp(leg Role, why Why, err *openai.Error) {
	a.emit(GiveUp{Leg: leg, Why: why})
	a.end(Fail{Err: err})
}
