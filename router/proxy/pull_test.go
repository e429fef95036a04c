package proxy

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"kvferry/router"
)

var pull = router.Config{ScheduleStyle: router.ContextFirst}

// theHandle has what a float64 and an ordinary decoder would change.
const theHandle = `{ "remote_lease_nonce":9007199254740993, "of_another_version" : 1.50e0, "do_remote_prefill":true }`

// hands is a prefill engine that replies with a handle after d.
func hands(d time.Duration, handle string) http.HandlerFunc {
	return replies(d, `{"id":"cmpl-1","object":"text_completion","choices":[{"text":"x"}],"usage":{},"kv_transfer_params":`+handle+`,`+
		`"kvferry":{"prefill_seconds":0.25,"hidden_seconds":0.05,"exposed_seconds":0.0125}}`)
}

// letGo gives the handles that an engine was told to let go of.
func (w *world) letGo(f *fakeEngine) (handles []string) {
	w.settle()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.released {
		handles = append(handles, c.path+" "+c.body)
	}
	return handles
}

// Prefill is asked first and alone; its handle, the client's body and their numbers reach decode
// byte for byte, under one request ID.
// case: 16
func TestContextFirst(t *testing.T) {
	const body = ` {"seed": 9007199254740993, "temperature":0.10000000000000000555, "model":"kvferry-tiny","prompt":"é\u00e9","top_p":9.50e-1}`
	inWorldOf(t, Config{Config: pull}, 1, 1, func(t *testing.T, w *world) {
		w.prefill[0].serve = hands(time.Second, theHandle)
		w.decode[0].serve = decodeStream(2, time.Second, sendsDone)
		req := w.request(t.Context(), "POST", "/v1/completions", body)
		req.Header.Set("X-Request-Id", "client-1")
		req.Header.Set("X-Kvferry-Attempt", "77")
		a := w.do(req)
		if want := event(0) + event(1) + "data: [DONE]\n\n"; a.status != 200 || a.body != want || a.took != 3*time.Second {
			t.Errorf("status %d after %v: %q, want %q", a.status, a.took, a.body, want)
		}
		if got := a.trailer.Get("Server-Timing"); got != wantTiming {
			t.Errorf("timing %q, want %q", got, wantTiming)
		}
		p, _ := w.prefill[0].seen()
		d, _ := w.decode[0].seen()
		if len(p) != 1 || len(d) != 1 {
			t.Fatalf("%d and %d calls", len(p), len(d))
		}
		const ask = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_request_id":null,` +
			`"remote_block_ids":null,"remote_host":null,"remote_port":null}`
		for leg, c := range map[string]struct {
			call call
			kv   string
		}{"prefill": {p[0], ask}, "decode": {d[0], theHandle}} {
			if want := ` {"kv_transfer_params":` + c.kv + "," + body[2:]; c.call.body != want {
				t.Errorf("%s got\n%s\nwant\n%s", leg, c.call.body, want)
			}
			if id := c.call.header.Values("X-Request-Id"); len(id) != 1 || id[0] != "client-1" {
				t.Errorf("%s has the IDs %q", leg, id)
			}
			if n := c.call.header.Values("X-Kvferry-Attempt"); len(n) != 1 || n[0] != "1" {
				t.Errorf("%s has the attempts %q", leg, n)
			}
		}
		if got := w.letGo(w.prefill[0]); got != nil {
			t.Errorf("released %q", got)
		}
		w.ended(outcomeOK, 200)
	})
}

// A decode engine that fails before its first byte is replaced by another, with the same handle
// and a higher attempt; prefill is asked once.
// case: 17
func TestDecodeIsRetriedWithTheSameHandle(t *testing.T) {
	for name, bad := range map[string]http.HandlerFunc{
		"dies": dies(0), "no room": fails(0, 503, upstream("no free block")), "fails": fails(0, 502, upstream("load failed")),
	} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, Config{Config: pull}, 1, 2, func(t *testing.T, w *world) {
				w.prefill[0].serve = hands(0, theHandle)
				w.decode[0].serve = bad
				if a := w.post(greeting); a.status != 200 || a.body != `{"choices":[]}` {
					t.Fatalf("status %d: %s", a.status, a.body)
				}
				p, _ := w.prefill[0].seen()
				d0, _ := w.decode[0].seen()
				d1, _ := w.decode[1].seen()
				if len(p) != 1 || len(d0) != 1 || len(d1) != 1 {
					t.Fatalf("%d, %d and %d calls", len(p), len(d0), len(d1))
				}
				second := d1[0]
				if d0[0].body != second.body || !strings.Contains(second.body, theHandle) {
					t.Errorf("the decode engines got\n%s\nand\n%s", d0[0].body, second.body)
				}
				if got := d0[0].header.Get("X-Kvferry-Attempt") + second.header.Get("X-Kvferry-Attempt"); got != "12" {
					t.Errorf("attempts %s, want 1 and 2", got)
				}
				if got := w.metrics(`kvferry_router_retries_total{leg="decode"`); len(got) != 1 || got[0] != `kvferry_router_retries_total{leg="decode",policy="same_handle"} 1` {
					t.Errorf("retries %q", got)
				}
				if got := w.letGo(w.prefill[0]); got != nil {
					t.Errorf("released %q", got)
				}
				w.ended(outcomeOK, 200)
			})
		})
	}
}

// A handle that nobody takes is given back to its holder, whoever is to blame.
// case: 06
func TestHandleThatNobodyTakesIsReleased(t *testing.T) {
	for name, tc := range map[string]struct {
		decode http.HandlerFunc
		status int
	}{
		"every decode fails": {dies(0), 502},
		"refused":            {fails(0, 400, tooLong), 400},
	} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, Config{Config: pull}, 1, 2, func(t *testing.T, w *world) {
				w.prefill[0].serve = hands(0, theHandle)
				w.decode[0].serve, w.decode[1].serve = tc.decode, tc.decode
				if a := w.post(greeting); a.status != tc.status {
					t.Errorf("status %d: %s", a.status, a.body)
				}
				checkReleased(t, w, 1)
			})
		})
	}
}

func checkReleased(t *testing.T, w *world, times int) {
	t.Helper()
	got := w.letGo(w.prefill[0])
	if len(got) != times {
		t.Fatalf("released %q, want %d times", got, times)
	}
	for _, g := range got {
		if g != "POST "+theHandle {
			t.Errorf("released %q, want %q", g, theHandle)
		}
	}
	if m := w.metrics(`kvferry_router_releases_total{outcome="ok"`); times > 0 && (len(m) != 1 || m[0] != `kvferry_router_releases_total{outcome="ok"} `+strconv.Itoa(times)) {
		t.Errorf("counted %q", m)
	}
}

// A client that leaves before there is a handle ends prefill's work, and the leg is withdrawn, for
// the handle may be on its way; one that leaves later, until decode has its first token, has the
// handle released, even while the reply is still coming.
// case: 04, 06
func TestClientLeavesWithAHandle(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) { // a reply in two parts
		_, _ = io.WriteString(w, `{"kv_transfer_params":`+theHandle)
		_ = http.NewResponseController(w).Flush()
		<-time.After(time.Second)
		_, _ = io.WriteString(w, `}`)
	}
	never := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"kv_transfer_params":`)
		_ = http.NewResponseController(w).Flush()
		hangs(w, r)
	}
	for name, tc := range map[string]struct {
		prefill, decode http.HandlerFunc
		after           time.Duration
		released        int
		withdrawn       bool // and prefill's work is given up
	}{
		"while prefill computes":     {hangs, hangs, time.Second, 0, true},
		"while the reply comes":      {half, hangs, time.Second / 2, 1, false},
		"a reply that does not end":  {never, hangs, time.Second / 2, 0, true},
		"before decode's first byte": {hands(0, theHandle), hangs, time.Second, 1, false},
		"after it":                   {hands(0, theHandle), decodeStream(1000, 50*time.Millisecond, sendsDone), 510 * time.Millisecond, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, Config{Config: pull}, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve, w.decode[0].serve = tc.prefill, tc.decode
				ctx, hangUp := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					resp, err := w.client.Do(w.request(ctx, "POST", "/v1/completions", greeting))
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				}()
				w.pass(tc.after)
				hangUp()
				<-done
				w.pass(replyTimeout)
				if tc.withdrawn {
					checkWithdrawn(t, w)
				} else {
					checkReleased(t, w, tc.released)
				}
				w.asked(w.prefill[0], tc.withdrawn)
				w.ended(outcomeGone, statusGone)
			})
		})
	}
}

// checkWithdrawn: the leg that was cut is named, by what no other leg has, for its handle may be on
// its way.
func checkWithdrawn(t *testing.T, w *world) {
	t.Helper()
	legs, _ := w.prefill[0].seen()
	if len(legs) != 1 || len(legs[0].header.Get("X-Kvferry-Leg")) != 32 {
		t.Fatalf("prefill was asked %d times: %v", len(legs), legs)
	}
	want := `POST {"do_remote_decode":true,"remote_request_id":"` + legs[0].header.Get("X-Kvferry-Leg") + `"}`
	if got := w.letGo(w.prefill[0]); len(got) != 1 || got[0] != want {
		t.Errorf("withdrawn %q, want %q", got, want)
	}
}

// An engine that does not let go in time, or at all, holds nobody up.
// case: 06
func TestReleaseIsBounded(t *testing.T) {
	inWorldOf(t, Config{Config: pull}, 1, 1, func(t *testing.T, w *world) {
		w.prefill[0].serve = hands(0, theHandle)
		w.decode[0].serve = func(rw http.ResponseWriter, r *http.Request) {
			w.prefill[0].set(func() { w.prefill[0].vanished = true })
			dies(0)(rw, r)
		}
		if a := w.post(greeting); a.status != 502 || a.took != 0 {
			t.Errorf("status %d after %v", a.status, a.took)
		}
		w.pass(releaseTimeout)
		if m := w.metrics(`kvferry_router_releases_total{outcome="failed"`); len(m) != 1 || m[0] != `kvferry_router_releases_total{outcome="failed"} 1` {
			t.Errorf("counted %q", m)
		}
		if len(w.router.releaseSlots) != 0 {
			t.Errorf("%d places are taken", len(w.router.releaseSlots))
		}
	})
}

// No prefill is paid for when no decode engine is alive.
// case: 16
func TestContextFirstPaysForNothingInVain(t *testing.T) {
	inWorldOf(t, Config{Config: pull}, 1, 1, func(t *testing.T, w *world) {
		w.kill(w.decode[0])
		w.pass(time.Second)
		if a := w.post(greeting); a.status != 503 {
			t.Errorf("status %d: %s", a.status, a.body)
		}
		w.untouched(w.prefill[0])
	})
}

// Each policy does what it says after a prefill engine's failure, in both styles, and is counted.
// case: 12
func TestPrefillFailurePolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  string
		status  int
		counted string
	}{
		"fail":  {router.PolicyFail, 502, `kvferry_router_given_up_total{leg="prefill",why="policy"} 1`},
		"other": {router.PolicyOther, 200, `kvferry_router_retries_total{leg="prefill",policy="other"} 1`},
		"local": {router.PolicyLocal, 200, `kvferry_router_retries_total{leg="prefill",policy="local"} 1`},
	} {
		for _, style := range []string{router.GenerationFirst, router.ContextFirst} {
			t.Run(name+" "+style, func(t *testing.T) {
				cfg := Config{Config: router.Config{ScheduleStyle: style, PrefillFailurePolicy: tc.policy}}
				inWorldOf(t, cfg, 2, 1, func(t *testing.T, w *world) {
					w.prefill[0].serve, w.prefill[1].serve = dies(50*time.Millisecond), hands(0, theHandle)
					if style == router.GenerationFirst {
						// Decode has nothing until its prefill engine has done its work.
						w.decode[0].serve = func(rw http.ResponseWriter, r *http.Request) {
							if pause(r.Context(), 100*time.Millisecond) {
								decodeJSON(`{"choices":[]}`)(rw, r)
							}
						}
					}
					a := w.post(greeting)
					if a.status != tc.status {
						t.Errorf("status %d: %s", a.status, a.body)
					}
					name, _, _ := strings.Cut(tc.counted, " ")
					if got := w.metrics(name); len(got) != 1 || got[0] != tc.counted {
						t.Errorf("counted %q, want %q", got, tc.counted)
					}
					d, _ := w.decode[0].seen()
					if tc.policy == router.PolicyLocal {
						if last := d[len(d)-1]; last.body != greeting {
							t.Errorf("decode got %s, want the client's own", last.body)
						}
						w.untouched(w.prefill[1])
					}
					if style == router.GenerationFirst && tc.policy == router.PolicyOther {
						if len(d) != 2 || d[0].disagg().RequestID+"-2" != d[1].disagg().RequestID {
							t.Errorf("decode was asked %d times: %+v", len(d), d)
						}
					}
				})
			})
		}
	}
}

// No more requests than the cap are computed by decode engines, with prefill failing or with none
// there; what ends makes room.
// case: 12
func TestLocalHasACap(t *testing.T) {
	cfg := Config{Config: router.Config{ScheduleStyle: router.ContextFirst, PrefillFailurePolicy: router.PolicyLocal, LocalCap: 2}}
	inWorldOf(t, cfg, 1, 1, func(t *testing.T, w *world) {
		w.kill(w.prefill[0])
		w.pass(time.Second)
		w.decode[0].serve = replies(time.Second, `{"choices":[]}`)
		got := make(chan int, 5)
		for range 5 {
			go func() { got <- w.post(greeting).status }()
		}
		w.pass(2 * time.Second)
		count := map[int]int{}
		for range 5 {
			count[<-got]++
		}
		if count[200] != 2 || count[503] != 3 {
			t.Errorf("statuses %v, want 2 answers and 3 refusals", count)
		}
		if m := w.metrics(`kvferry_router_given_up_total{leg="prefill",why="local_cap"`); len(m) != 1 || m[0] != `kvferry_router_given_up_total{leg="prefill",why="local_cap"} 3` {
			t.Errorf("counted %q", m)
		}
		if m := w.metrics("kvferry_router_local_prefills"); len(m) != 1 || m[0] != "kvferry_router_local_prefills 0" {
			t.Errorf("running: %q", m)
		}
		if a := w.post(greeting); a.status != 200 {
			t.Errorf("after they ended: status %d", a.status)
		}
	})
}

// The deployment's token goes with every leg, poll, state and release; a client's own does not.
func TestToken(t *testing.T) {
	for name, token := range map[string]string{"with": "s3cret", "without": ""} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, Config{Config: pull, Token: token}, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve = hands(0, theHandle)
				w.decode[0].serve = fails(0, 500, "x")
				req := w.request(t.Context(), "POST", "/v1/completions", greeting)
				req.Header.Set("X-Kvferry-Token", "a client's")
				a := w.do(req)
				if a.status != 502 {
					t.Errorf("status %d", a.status)
				}
				w.decode[0].set(func() {
					w.decode[0].serve = func(rw http.ResponseWriter, r *http.Request) {
						rw.Header().Set("X-Kvferry-Token", r.Header.Get("X-Kvferry-Token"))
						decodeJSON("{}")(rw, r)
					}
				})
				a = w.post(greeting)
				w.get("/debug/state")
				w.settle()
				all := 0
				for _, f := range []*fakeEngine{w.prefill[0], w.decode[0]} {
					f.mu.Lock()
					for _, c := range append(append(append([]call(nil), f.calls...), f.asked...), f.released...) {
						all++
						if got := c.header.Get("X-Kvferry-Token"); got != token {
							t.Errorf("%s %s has token %q, want %q", f.addr, c.path, got, token)
						}
					}
					f.mu.Unlock()
				}
				if len(w.letGo(w.prefill[0])) != 1 || all < 7 {
					t.Errorf("%d calls in all", all)
				}
				if a.status != 200 || a.header.Get("X-Kvferry-Token") != "" {
					t.Errorf("the client got the token")
				}
				if strings.Contains(w.log.String(), "s3cret") {
					t.Errorf("the token was logged")
				}
			})
		})
	}
}

// A router that drains answers what runs, and tells engines what it must, before it ends.
// case: 16
func TestContextFirstDrains(t *testing.T) {
	inWorldOf(t, Config{Config: pull}, 1, 1, func(t *testing.T, w *world) {
		w.prefill[0].serve = hands(time.Second, theHandle)
		got := make(chan answerOf, 1)
		go func() { got <- w.post(greeting) }()
		w.pass(500 * time.Millisecond)
		w.router.Drain()
		if a := w.post(greeting); a.status != 503 {
			t.Errorf("a new request: status %d", a.status)
		}
		if a := <-got; a.status != 200 || a.body != `{"choices":[]}` {
			t.Errorf("the one that ran: status %d: %s", a.status, a.body)
		}
	})
}
