package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"kvferry/openai"
)

// Run measures. It ends early when ctx does.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	model, err := learn(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.PromptTokens, err = o.fit(model.MaxModelLen); err != nil {
		return nil, err
	}
	// Each engine has one prompt at a time and its memory is used again for the next: what is
	// measured is not how the system finds pages.
	o.Engine.BlockReuse = false
	o.Engine.KVBlocks = (o.PromptTokens+answerTokens)/o.Engine.BlockTokens + 1
	b, err := newBed(o.Engine)
	if err != nil {
		return nil, err
	}
	defer b.stop()
	r := &runner{o: o, bed: b, client: newClient(model.ID)}
	defer r.client.close()
	rep, err := r.measure(ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // whatever it was that broke off
	}
	return rep, err
}

// learn asks an engine what its model is.
func learn(ctx context.Context, o Options) (openai.Model, error) {
	b, err := newBed(o.Engine)
	if err != nil {
		return openai.Model{}, err
	}
	defer b.stop()
	return onlyModel(ctx, b.decode.Addr())
}

func (r *runner) measure(ctx context.Context) (rep *Report, err error) {
	rep = &Report{Model: r.o.Engine.Model, PromptTokens: r.o.PromptTokens, Rounds: r.o.Rounds}
	if rep.KVBytes, rep.KVRate, err = r.calibrate(ctx); err != nil {
		return nil, err
	}
	if len(r.o.Bandwidths) == 0 {
		r.o.Bandwidths = linksFor(rep.KVRate)
	}
	for _, bandwidth := range r.o.Bandwidths {
		rows, err := r.link(ctx, bandwidth)
		if err != nil {
			return nil, err
		}
		rep.Rows = append(rep.Rows, rows...)
	}
	return rep, nil
}

type runner struct {
	o      Options
	bed    *bed
	client *client
}

func onlyModel(ctx context.Context, addr string) (openai.Model, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/v1/models", nil)
	if err != nil {
		return openai.Model{}, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return openai.Model{}, err
	}
	defer resp.Body.Close()
	var list openai.ModelList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Data) != 1 {
		return openai.Model{}, fmt.Errorf("the engine lists %d models: %w", len(list.Data), err)
	}
	return list.Data[0], nil
}

// calibrate finds out how large the prompt's KV is and at which rate in bytes a second it is
// computed, in one piece and with nothing in the way.
func (r *runner) calibrate(ctx context.Context) (bytes uint64, rate float64, err error) {
	r.o.say("computing a prompt of %d tokens to see how fast its KV grows", r.o.PromptTokens)
	defer r.bed.stopSenders()
	var took []float64
	for range 3 { // the first one touches its memory for the first time
		s, err := r.once(ctx, setting{mode: monolithic, chunks: 1})
		if err != nil {
			return 0, 0, err
		}
		bytes = s.Bytes
		took = append(took, s.Prefill)
	}
	return bytes, float64(bytes) / slices.Min(took), nil
}

// linksFor gives a link that cannot keep up with the computing, one that can, and a fast one.
func linksFor(rate float64) []int64 {
	var out []int64
	for _, times := range []float64{0.5, 1.5, 4} {
		out = append(out, max(1, int64(rate*times)))
	}
	return out
}

// link measures all settings over one link, interleaved, so that what else the machine does
// falls on all of them.
func (r *runner) link(ctx context.Context, bandwidth int64) ([]Row, error) {
	defer r.bed.stopSenders()
	var settings []setting
	for _, n := range r.o.Chunks {
		for _, mode := range modes {
			settings = append(settings, setting{bandwidth: bandwidth, mode: mode, chunks: n})
		}
	}
	r.o.say("link of %s: starting %d engines", rateText(float64(bandwidth)), len(settings))
	for _, s := range settings { // shakes hands, and touches the memory
		if _, err := r.once(ctx, s); err != nil {
			return nil, err
		}
	}
	samples := map[setting][]sample{}
	for round := range r.o.Rounds {
		r.o.say("link of %s: round %d of %d", rateText(float64(bandwidth)), round+1, r.o.Rounds)
		for _, s := range settings {
			got, err := r.once(ctx, s)
			if err != nil {
				return nil, err
			}
			samples[s] = append(samples[s], got)
		}
	}
	var rows []Row
	for _, n := range r.o.Chunks {
		mono := samples[setting{bandwidth: bandwidth, mode: monolithic, chunks: n}]
		for _, mode := range modes {
			rows = append(rows, newRow(bandwidth, mode, n, samples[setting{bandwidth: bandwidth, mode: mode, chunks: n}], mono))
		}
	}
	return rows, nil
}

func (r *runner) once(ctx context.Context, s setting) (sample, error) {
	e, err := r.bed.sender(s, r.o.PromptTokens)
	if err != nil {
		return sample{}, err
	}
	return r.client.ask(ctx, e, r.bed.decode, r.o.PromptTokens)
}
