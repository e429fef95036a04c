package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"kvferry/openai"
)

// TestAttempt runs the scripts of testdata/attempt. Each step prints what the attempt puts
// out, and then its deadline if it has one.
func TestAttempt(t *testing.T) {
	datadriven.Walk(t, "testdata/attempt", func(t *testing.T, path string) {
		var a *Attempt
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			at := "0s"
			d.MaybeScanArgs(t, "at", &at)
			now, err := time.ParseDuration(at)
			if err != nil {
				d.Fatalf(t, "at: %v", err)
			}
			switch d.Cmd {
			case "new":
				a = newAttempt(t, d)
			case "tick":
				a.Tick(int64(now))
			default:
				if err := a.Step(int64(now), event(t, d, a)); err != nil {
					return "error: " + err.Error() + "\n"
				}
			}
			return show(a)
		})
	})
}

// newAttempt reads new's line: id, style, policy, tries, p=2 and d=2 for how many engines there
// are of a role, locals for how many places there are, turn for a handle, and alone.
func newAttempt(t *testing.T, d *datadriven.TestData) *Attempt {
	start := Start{Pair: testPair()}
	d.ScanArgs(t, "id", &start.ID)
	var cfg Config
	d.MaybeScanArgs(t, "style", &cfg.ScheduleStyle)
	d.MaybeScanArgs(t, "policy", &cfg.PrefillFailurePolicy)
	d.MaybeScanArgs(t, "tries", &cfg.PrefillTries)
	cfg, err := cfg.Resolve()
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	e := &testEngines{}
	d.MaybeScanArgs(t, "p", &e.prefill)
	d.MaybeScanArgs(t, "d", &e.decode)
	d.MaybeScanArgs(t, "locals", &e.locals)
	if d.HasArg("turn") {
		var turn string
		d.ScanArgs(t, "turn", &turn)
		start.Turn = json.RawMessage(turn)
	}
	if d.HasArg("alone") {
		start.Pair.Prefill = Engine{}
	}
	return NewAttempt(cfg, start, e)
}

func testPair() Pair { return Pair{Prefill: testEngine(Prefill, 0), Decode: testEngine(Decode, 0)} }

// testEngine is the n-th engine of a role: p, p1, p2 and d, d1, d2.
func testEngine(role Role, n int) Engine {
	name := role.String()[:1]
	if n > 0 {
		name += strconv.Itoa(n)
	}
	return Engine{
		Index: 10*int(role) + n, Role: role, URL: "http://" + name,
		Report: Report{Life: name + name, Agent: name + ":9"},
	}
}

// testEngines has so many engines of each role, all ready, and so many places.
type testEngines struct{ prefill, decode, locals int }

func (e *testEngines) Other(role Role, not []int) (Engine, bool) {
	n := e.prefill
	if role == Decode {
		n = e.decode
	}
	for i := range n {
		if x := testEngine(role, i); !slices.Contains(not, x.Index) {
			return x, true
		}
	}
	return Engine{}, false
}

func (e *testEngines) Local() bool {
	e.locals--
	return e.locals >= 0
}

// event reads an event from a script's line. It is of the newest try of its leg, or of the one
// that try names.
func event(t *testing.T, d *datadriven.TestData, a *Attempt) Event {
	p, dec := a.prefill.try, a.decode.try
	d.MaybeScanArgs(t, "try", &p)
	d.MaybeScanArgs(t, "try", &dec)
	switch d.Cmd {
	case "prefill-done":
		return PrefillDone{Try: p, Timing: timing(t, d), Handle: handle(t, d)}
	case "prefill-failed":
		return PrefillFailed{p, failure(t, d)}
	case "decode-headers":
		return DecodeHeaders{dec}
	case "decode-done":
		return DecodeDone{dec}
	case "decode-failed":
		return DecodeFailed{dec, failure(t, d)}
	case "client-gone":
		return ClientGone{}
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return nil
}

func timing(t *testing.T, d *datadriven.TestData) *Timing {
	if !d.HasArg("prefill") {
		return nil
	}
	var tm Timing
	d.ScanArgs(t, "prefill", &tm.Prefill)
	d.ScanArgs(t, "hidden", &tm.Hidden)
	d.ScanArgs(t, "exposed", &tm.Exposed)
	return &tm
}

func handle(t *testing.T, d *datadriven.TestData) json.RawMessage {
	if !d.HasArg("handle") {
		return nil
	}
	var h string
	d.ScanArgs(t, "handle", &h)
	return json.RawMessage(h)
}

func failure(t *testing.T, d *datadriven.TestData) Failure {
	if d.HasArg("lost") {
		return Failure{Lost: true, Cause: errors.New("reset by 10.0.0.1")}
	}
	e := &openai.Error{Type: "some_type", Param: "prompt", Message: strings.TrimSpace(d.Input)}
	d.ScanArgs(t, "status", &e.Status)
	return Failure{Answer: e}
}

// show prints what the attempt puts out and waits for.
func show(a *Attempt) string {
	var b strings.Builder
	for _, o := range a.Outputs() {
		switch o := o.(type) {
		case StartPrefill:
			fmt.Fprintf(&b, "start prefill on %s%s: %s\n", o.Engine.URL, again(o.Try), part(o.Part))
		case StartDecode:
			fmt.Fprintf(&b, "start decode on %s%s: %s\n", o.Engine.URL, again(o.Try), part(o.Part))
		case LegFailed:
			fmt.Fprintf(&b, "leg failed on %s: %v\n", o.Engine.URL, o.Failure)
		case Retry:
			fmt.Fprintf(&b, "retry %v: %s\n", o.Leg, o.How)
		case GiveUp:
			fmt.Fprintf(&b, "give up on %v: %s\n", o.Leg, o.Why)
		case Release:
			fmt.Fprintf(&b, "release on %s: %s\n", o.Engine.URL, o.Handle)
		case Fail:
			fmt.Fprintf(&b, "fail: %v\n", o.Err)
		case Break:
			fmt.Fprintf(&b, "break: %v\n", o.Err)
		case Finish:
			b.WriteString("finish")
			if o.Timing != nil {
				fmt.Fprintf(&b, ": prefill %v s, hidden %v s, exposed %v s", o.Timing.Prefill, o.Timing.Hidden, o.Timing.Exposed)
			}
			b.WriteByte('\n')
		case CancelPrefill:
			b.WriteString("cancel prefill\n")
		case CancelDecode:
			b.WriteString("cancel decode\n")
		default:
			fmt.Fprintf(&b, "%s\n", strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "router.")))
		}
	}
	if d := a.Deadline(); d != never {
		fmt.Fprintf(&b, "wake at %v\n", time.Duration(d))
	}
	return b.String()
}

func again(try int) string {
	if try == 1 {
		return ""
	}
	return fmt.Sprintf(" (try %d)", try)
}

func part(p Part) string {
	switch {
	case p.Disagg != nil:
		return fmt.Sprintf("%+v", *p.Disagg)
	case p.KV != nil:
		return string(p.KV)
	}
	return "all of it"
}
