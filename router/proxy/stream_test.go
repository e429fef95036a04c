package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

const wantTiming = "prefill;dur=250.000, transfer_hidden;dur=50.000, transfer_exposed;dur=12.500"

// An answer is passed on as it is: status, headers, and the bytes of each event when it comes.
// PIPE-27's figures follow it.
// req: PIPE-27
func TestStreamIsPassedOnAsItComes(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.decode[0].serve = decodeStream(3, time.Second, sendsDone)
		began := time.Now()
		resp, err := w.client.Do(w.request(t.Context(), "POST", "/v1/completions", greeting))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.Header.Get("Content-Type") != "text/event-stream" || resp.StatusCode != 200 {
			t.Errorf("status %d, headers %v", resp.StatusCode, resp.Header)
		}
		for i, want := range []string{event(0), event(1), event(2), "data: [DONE]\n\n"} {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
				t.Fatalf("event %d: %q (%v), want %q", i, got, err, want)
			}
			if took := time.Since(began); took != time.Duration(i)*time.Second {
				t.Errorf("event %d came after %v", i, took)
			}
		}
		if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
			t.Errorf("after the last event: %q (%v)", rest, err)
		}
		if got := resp.Trailer.Get("Server-Timing"); got != wantTiming {
			t.Errorf("timing %q, want %q", got, wantTiming)
		}
		w.ended(outcomeOK, 200)
		if got := w.metrics("kvferry_router_first_byte_seconds_count"); got[0] != "kvferry_router_first_byte_seconds_count 1" {
			t.Errorf("first bytes: %q", got)
		}
	})
}

// The client learns that there is an answer when decode does, even if the first event is still
// to come.
func TestStreamHeadersComeAtOnce(t *testing.T) {
	inWorld(t, 1, 1, func(t *testing.T, w *world) {
		w.decode[0].serve = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "Text/Event-Stream; charset=utf-8")
			_ = http.NewResponseController(rw).Flush()
			if pause(r.Context(), time.Second) {
				sendsDone(rw, r)
			}
		}
		began := time.Now()
		resp, err := w.client.Do(w.request(t.Context(), "POST", "/v1/completions", greeting))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("headers came after %v", took)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != "data: [DONE]\n\n" || err != nil {
			t.Errorf("stream %q (%v)", body, err)
		}
	})
}

// An answer that is no stream keeps its bytes, status and headers too, and has the same trailer.
// req: PIPE-27
func TestBodyIsPassedOn(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "short": `{"choices":[]}`, "a chunk": strings.Repeat("x", chunk), "long": strings.Repeat("x", 3*chunk+1),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.decode[0].serve = decodeJSON(body)
				a := w.post(greeting)
				if a.status != 200 || a.err != nil || a.body != body {
					t.Errorf("status %d, %d bytes of %d (%v)", a.status, len(a.body), len(body), a.err)
				}
				if a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Engine") != "d" {
					t.Errorf("headers %v", a.header)
				}
				if got := a.trailer.Get("Server-Timing"); got != wantTiming {
					t.Errorf("timing %q, want %q", got, wantTiming)
				}
			})
		})
	}
}

// The prefill engine's reply may come a little after the answer's end; without it there is no
// timing, and nobody waits longer.
func TestTimingIsWaitedForBriefly(t *testing.T) {
	for name, tc := range map[string]struct {
		prefill http.HandlerFunc
		took    time.Duration
		timing  string
		givenUp bool
	}{
		"late":     {prefillOK(200 * time.Millisecond), 200 * time.Millisecond, wantTiming, false},
		"too late": {prefillOK(time.Second), 250 * time.Millisecond, "", true},
		"fails":    {fails(100*time.Millisecond, 502, upstream("lost")), 100 * time.Millisecond, "", false},
		"no word":  {replies(0, `{"usage":{}}`), 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 1, func(t *testing.T, w *world) {
				w.prefill[0].serve = tc.prefill
				a := w.post(greeting)
				if a.status != 200 || a.err != nil || a.took != tc.took || a.body != `{"choices":[]}` {
					t.Errorf("status %d, %q (%v) after %v, want 200 after %v", a.status, a.body, a.err, a.took, tc.took)
				}
				if got := a.trailer.Get("Server-Timing"); got != tc.timing {
					t.Errorf("timing %q, want %q", got, tc.timing)
				}
				w.asked(w.prefill[0], tc.givenUp)
				w.ended(outcomeOK, 200)
			})
		})
	}
}

// However a stream is cut into reads, its bytes are the same, and every write but the last ends
// with an event.
func TestStreamAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{
			"data: x\n", "data: y\r\n", "\n", "\r\n", ": ping\n\n", "data: z", "data: [DONE]\n\n",
		})).Draw(t, "parts")
		stream := strings.Join(parts, "")
		read := rapid.SampledFrom([]func(io.Reader) io.Reader{
			iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader,
			func(r io.Reader) io.Reader { return r },
		}).Draw(t, "reader")
		rec := &writes{ResponseRecorder: httptest.NewRecorder()}
		a := &answer{w: rec, onFirst: func() {}}
		err := a.copy(&http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(read(strings.NewReader(stream))),
		})
		if err != nil || strings.Join(rec.got, "") != stream {
			t.Fatalf("%q came out as %q (%v)", stream, rec.got, err)
		}
		for _, part := range rec.got[:max(0, len(rec.got)-1)] {
			if part != "" && !strings.HasSuffix(part, "\n\n") && !strings.HasSuffix(part, "\n\r\n") {
				t.Fatalf("%q was written as %q: not whole events", stream, rec.got)
			}
		}
	})
}

// writes keeps each write apart.
type writes struct {
	*httptest.ResponseRecorder
	got []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.got = append(w.got, string(b))
	return w.ResponseRecorder.Write(b)
}
