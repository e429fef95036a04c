package router

import (
	"errors"
	"fmt"
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
				if err := a.Step(int64(now), event(t, d)); err != nil {
					return "error: " + err.Error() + "\n"
				}
			}
			return show(a)
		})
	})
}

func newAttempt(t *testing.T, d *datadriven.TestData) *Attempt {
	var id string
	d.ScanArgs(t, "id", &id)
	return NewAttempt(id, testPair())
}

func testPair() Pair {
	return Pair{
		Prefill: Engine{Index: 0, Role: Prefill, URL: "http://p", Report: Report{Life: "pp", Agent: "p:9"}},
		Decode:  Engine{Index: 1, Role: Decode, URL: "http://d", Report: Report{Life: "dd", Agent: "d:9"}},
	}
}

// event reads an event from a script's line.
func event(t *testing.T, d *datadriven.TestData) Event {
	switch d.Cmd {
	case "prefill-done":
		var tm Timing
		if !d.HasArg("prefill") {
			return PrefillDone{}
		}
		d.ScanArgs(t, "prefill", &tm.Prefill)
		d.ScanArgs(t, "hidden", &tm.Hidden)
		d.ScanArgs(t, "exposed", &tm.Exposed)
		return PrefillDone{Timing: &tm}
	case "prefill-failed":
		return PrefillFailed{failure(t, d)}
	case "decode-headers":
		return DecodeHeaders{}
	case "decode-done":
		return DecodeDone{}
	case "decode-failed":
		return DecodeFailed{failure(t, d)}
	case "client-gone":
		return ClientGone{}
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return nil
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
			fmt.Fprintf(&b, "start prefill on %s: %+v\n", o.Engine.URL, o.Disagg)
		case StartDecode:
			fmt.Fprintf(&b, "start decode on %s: %+v\n", o.Engine.URL, o.Disagg)
		case LegFailed:
			fmt.Fprintf(&b, "leg failed on %s: %v\n", o.Engine.URL, o.Failure)
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
