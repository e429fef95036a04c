package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"kvferry/node"
	"kvferry/openai"
)

// answerTokens is how many tokens an answer has: the first comes with the transfer, and the
// second makes the decode engine use what arrived.
const answerTokens = 2

// sample is one request's figures, in seconds.
type sample struct {
	node.TransferFigures
	firstToken float64 // from asking to the first token, on the client's clock
}

// client asks both engines for one request's legs, as a router does.
type client struct {
	http  *http.Client
	model string
	last  int // number of the last request
}

func newClient(model string) *client {
	return &client{http: &http.Client{Transport: &http.Transport{}}, model: model}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// ask has a fresh prompt prefilled on one engine and decoded on the other.
func (c *client) ask(ctx context.Context, prefill, decode *node.Engine, promptTokens int) (sample, error) {
	c.last++
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prompt := c.prompt(promptTokens)
	began := time.Now()
	first, done := make(chan time.Duration, 1), make(chan error, 1)
	go func() {
		err := c.decode(ctx, prefill, decode, prompt, func() { first <- time.Since(began) })
		if err != nil {
			cancel() // the prefill leg's answer would never come
		}
		done <- err
	}()
	reply, err := c.prefill(ctx, prefill, prompt)
	if err != nil {
		cancel()
		// The decode leg may know better why: it is told what the other side says.
		if cause := <-done; cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		return sample{}, err
	}
	if err := <-done; err != nil {
		return sample{}, err
	}
	return sample{TransferFigures: reply.Kvferry, firstToken: (<-first).Seconds()}, nil
}

// prompt is random printable bytes as token IDs, which every vocabulary has. No two requests
// have the same.
func (c *client) prompt(n int) []int32 {
	r := rand.New(rand.NewPCG(uint64(c.last), 0))
	out := make([]int32, n)
	for i := range out {
		out[i] = ' ' + r.Int32N('~'-' '+1)
	}
	return out
}

func (c *client) prefill(ctx context.Context, e *node.Engine, prompt []int32) (*node.PrefillReply, error) {
	resp, err := c.post(ctx, e.Addr(), prompt, openai.Disagg{RequestType: openai.ContextOnly})
	if err != nil {
		return nil, fmt.Errorf("prefill leg: %w", err)
	}
	defer resp.Body.Close()
	var reply node.PrefillReply
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return nil, fmt.Errorf("prefill leg: %w", err)
	}
	return &reply, nil
}

// maxEvent bounds an event of the answer, in bytes.
const maxEvent = 64 << 10

// decode reads the answer to its end, and calls first when its first token is there.
func (c *client) decode(ctx context.Context, prefill, e *node.Engine, prompt []int32, first func()) error {
	resp, err := c.post(ctx, e.Addr(), prompt, openai.Disagg{
		RequestType: openai.GenerationOnly, CtxInfoEndpoint: prefill.AgentAddr(),
	})
	if err != nil {
		return fmt.Errorf("decode leg: %w", err)
	}
	defer resp.Body.Close()
	events := openai.NewReader(resp.Body, maxEvent)
	for n := 0; ; n++ {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("decode leg: %w", err)
		}
		if failed, ok := openai.StreamError(ev.Data); ok {
			return fmt.Errorf("decode leg: %w", failed)
		}
		if n == 0 {
			first()
		}
		if ev.Done() {
			return nil
		}
	}
}

func (c *client) post(ctx context.Context, addr string, prompt []int32, leg openai.Disagg) (*http.Response, error) {
	leg.RequestID, leg.ScheduleStyle = "bench-"+strconv.Itoa(c.last), openai.GenerationFirst
	body, err := json.Marshal(map[string]any{
		"model": c.model, "prompt": prompt, "max_tokens": answerTokens, "temperature": 0, "ignore_eos": true,
		"stream": true, "disaggregated_params": leg,
	})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
		return nil, openai.DecodeError(resp.StatusCode, text)
	}
	return resp, nil
}
