package lapse_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
)

var runs = flag.Int("lapse.runs", 240, "runs of TestLapse, with verification and again without")

const (
	model = "emulated:test,context=256"
	// A prompt fills promptBlocks and one token more, so that every byte that is read is seen; a
	// refill takes all of a prefill engine's blocks, so it is computed only when the lease is over.
	tokensOfBlock, promptBlocks, poolBlocks = 16, 8, 16
	refillTokens                            = tokensOfBlock*poolBlocks - 6
	// readBytes is what a prompt's blocks have: four layers, K and V, two heads of 32 elements of
	// two bytes. A read is cut at multiples of cutBytes, which is a part of a row.
	readBytes, cutBytes = tokensOfBlock * promptBlocks * 4 * 2 * 2 * 32 * 2, 64
)

// tally counts what became of the runs with one point.
type tally struct{ runs, right, refused, wrong int }

// lane is one decode engine and the two prefill engines it reads from: leases of one end when
// they are given up, those of the other expire.
type lane struct {
	t               *testing.T
	d, lasts, lapse *process
	whole           *e2etest.Client // the aggregated engine
	rnd             *rand.Rand
	counts          map[point]*tally
}

// TestLapse: leases lapse before, while and after a prompt's KV is read, given up or expired with
// every heartbeat lost, and their blocks are filled with another prompt at once. No answer has a
// wrong token, whichever policy a failed load has. Without verification the same runs do have
// wrong KV, wherever a byte was read after the lapse, and only there. No clock of the decode engine takes
// part in a lease, so there is none to skew.
//
// req: LEASE-22, LEASE-18, LEASE-15
// case: 01
// case: 02
func TestLapse(t *testing.T) {
	cfg := e2etest.Config()
	cfg.Model = model
	whole := e2etest.NewClient(e2etest.StartEngine(t, cfg).Addr(), "emulated:test")
	t.Cleanup(whole.Close)
	for _, verify := range []bool{true, false} {
		t.Run(fmt.Sprintf("verification=%v", verify), func(t *testing.T) {
			points := []point{never, before, during, during, landed, proved, reported}
			if !verify {
				points = []point{never, before, during, during, landed, reported}
			}
			lanes := []*lane{}
			for i, policy := range []string{node.RecomputePolicy, node.FailPolicy} {
				lanes = append(lanes, newLane(t, whole, verify, policy, uint64(i)))
			}
			var all sync.WaitGroup
			for _, l := range lanes {
				all.Go(func() {
					for i := 0; i < *runs/len(lanes) && !t.Failed(); i++ {
						l.run(points[i%len(points)], i/len(points)%4 == 3)
					}
				})
			}
			all.Wait()
			report(t, verify, lanes)
		})
	}
}

func newLane(t *testing.T, whole *e2etest.Client, verify bool, policy string, seed uint64) *lane {
	s := spec{Role: engine.Prefill, Model: model, Blocks: poolBlocks, Lease: time.Minute, Verify: true, Policy: node.FailPolicy, MaxChunk: 256}
	l := &lane{t: t, whole: whole, rnd: rand.New(rand.NewPCG(seed, 6)), counts: map[point]*tally{}}
	l.lasts = start(t, s)
	s.Lease = 40 * time.Millisecond
	l.lapse = start(t, s)
	s.Role, s.Verify, s.Policy, s.Blocks, s.Lease = engine.Decode, verify, policy, 4*poolBlocks, time.Minute
	l.d = start(t, s)
	return l
}

// run has one prompt read whose lease lapses at a point. A small prompt's lease ends after it, so
// that the refill takes that one's slot, and not the slot that is looked at: it must be zeroed.
func (l *lane) run(at point, expires bool) {
	p := l.lasts
	if expires = expires && at != never; expires {
		p = l.lapse
	}
	r := e2etest.Request{Prompt: l.prompt(promptBlocks*tokensOfBlock + 1), Params: map[string]any{"max_tokens": 4, "ignore_eos": true, "temperature": 0}}
	handle := l.prefill(p, r)
	small := l.prefill(p, e2etest.Request{Prompt: l.prompt(tokensOfBlock)})
	l.d.order(l.t, order{Point: at, Cut: cutBytes * (1 + l.rnd.Uint64N(readBytes/cutBytes-1))})
	type result struct {
		answer *e2etest.Answer
		err    error
	}
	came, due := make(chan result, 1), make(chan result, 1)
	go func() {
		a, err := l.d.Complete(l.t.Context(), r.With(map[string]any{"kv_transfer_params": handle}))
		came <- result{a, err}
	}()
	go func() {
		a, err := l.whole.Complete(l.t.Context(), r)
		due <- result{a, err}
	}()
	if at != never && l.held() {
		if !expires {
			l.release(p, handle)
			l.release(p, small)
		}
		other := l.prefill(p, e2etest.Request{Prompt: l.prompt(refillTokens)})
		l.d.tell(l.t, "go")
		defer l.release(p, other)
	}
	got, want := <-came, <-due
	if at == never {
		l.release(p, small)
	}
	if want.err != nil {
		l.t.Error(want.err)
		return
	}
	l.count(at, want.answer, got.answer, got.err)
}

func (l *lane) held() bool {
	l.d.await(l.t, "held")
	return !l.t.Failed()
}

func (l *lane) count(at point, want, got *e2etest.Answer, err error) {
	n := l.counts[at]
	if n == nil {
		n = &tally{}
		l.counts[at] = n
	}
	n.runs++
	var e *openai.Error
	switch {
	case err == nil && got.Differs(want) == nil:
		n.right++
	case err == nil && at == never:
		l.t.Errorf("nothing lapsed: %v", got.Differs(want))
	case err == nil, strings.Contains(err.Error(), "wrong KV"):
		n.wrong++ // the emulated model compares what it reads, and says so before it draws a token
	case errors.As(err, &e) && e.Status == http.StatusBadGateway && strings.Contains(e.Message, "lease not verified: lapsed"):
		n.refused++
	default:
		l.t.Errorf("%s: %v", at, err)
	}
}

func (l *lane) prompt(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = l.rnd.IntN(200)
	}
	return out
}

// prefill has a prompt computed and gives the handle.
func (l *lane) prefill(p *process, r e2etest.Request) json.RawMessage {
	kv, err := prefill(l.t, p, r)
	if err != nil {
		l.t.Error(err)
	}
	return kv
}

func prefill(t testing.TB, p *process, r e2etest.Request) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{
		"model": p.Model, "prompt": r.Prompt, "max_tokens": 1, "kv_transfer_params": map[string]any{"do_remote_decode": true},
	})
	if err != nil {
		return nil, err
	}
	resp, err := p.Post(t.Context(), "/v1/completions", body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the prefill leg: %s %v: %s", resp.Status, err, text)
	}
	return openai.KVTransferOf(text)
}

// release gives a lease up, as a router does.
func (l *lane) release(p *process, handle json.RawMessage) {
	resp, err := p.Post(l.t.Context(), "/v1/leases/release", handle)
	if err != nil {
		l.t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		l.t.Errorf("a release: %s", resp.Status)
	}
}

// report prints the table, and checks each row of it.
func report(t *testing.T, verify bool, lanes []*lane) {
	var out strings.Builder
	fmt.Fprintf(&out, "kv_lease_verification %v\n%-18s %6s %16s %11s %8s %8s\n",
		verify, "lapse", "runs", "right(recompute)", "right(fail)", "refused", "wrong KV")
	for _, at := range []point{never, before, during, landed, proved, reported} {
		re, fail := lanes[0].counts[at], lanes[1].counts[at]
		if re == nil || fail == nil {
			continue
		}
		fmt.Fprintf(&out, "%-18s %6d %16d %11d %8d %8d\n",
			at, re.runs+fail.runs, re.right, fail.right, re.refused+fail.refused, re.wrong+fail.wrong)
		check(t, verify, at, *re, *fail)
	}
	t.Logf("\n%s", out.String())
}

func check(t *testing.T, verify bool, at point, re, fail tally) {
	none := func(n tally) tally { return tally{runs: n.runs, right: n.runs} }
	wantRe, wantFail := none(re), none(fail)
	early := at == before || at == during
	switch {
	case verify && (early || at == landed):
		wantFail = tally{runs: fail.runs, refused: fail.runs}
	case !verify && early:
		wantRe, wantFail = tally{runs: re.runs, wrong: re.runs}, tally{runs: fail.runs, wrong: fail.runs}
	case verify && (at == proved || at == reported):
		// A busy machine may let a short lease expire before its slot is read: then it is refused.
		wantFail.right, wantFail.refused = fail.right, fail.runs-fail.right
	}
	if re != wantRe || fail != wantFail {
		t.Errorf("%s: recompute %+v, fail %+v; want %+v, %+v", at, re, fail, wantRe, wantFail)
	}
}
