package transfer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"kvferry/kvcache"
	"kvferry/wire"
)

// TestSend, TestReceive, TestOffer and TestPull run the scripts of testdata. A line is an event; what follows it
// is what the session then puts out, and where it stands. Time goes on only by at=; a
// session's clock is what the last at= said.
func TestSend(t *testing.T) {
	datadriven.Walk(t, "testdata/send", func(t *testing.T, path string) {
		var s *sendScript
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				s = newSendScript(t, d)
			} else {
				s.run(t, d)
			}
			return s.show()
		})
	})
}

func TestReceive(t *testing.T) {
	datadriven.Walk(t, "testdata/receive", func(t *testing.T, path string) {
		var r *receiveScript
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				r = newReceiveScript(t, d)
			} else {
				r.run(t, d)
			}
			return r.show()
		})
	})
}

func TestOffer(t *testing.T) {
	datadriven.Walk(t, "testdata/offer", func(t *testing.T, path string) {
		var o *offerScript
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				o = newOfferScript(t, d)
			} else {
				o.run(t, d)
			}
			return o.show()
		})
	})
}

func TestPull(t *testing.T) {
	datadriven.Walk(t, "testdata/pull", func(t *testing.T, path string) {
		var p *pullScript
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				p = newPullScript(t, d)
			} else {
				p.run(t, d)
			}
			return p.show()
		})
	})
}

// clock moves to a line's at=, if it has one.
func clock(t *testing.T, d *datadriven.TestData, now *int64) {
	var at string
	if d.MaybeScanArgs(t, "at", &at) {
		*now = duration(t, d, at)
	}
}

func duration(t *testing.T, d *datadriven.TestData, s string) int64 {
	v, err := time.ParseDuration(s)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return int64(v)
}

// arg reads an argument, or leaves the default.
func arg[T any](t *testing.T, d *datadriven.TestData, name string, value T) T {
	d.MaybeScanArgs(t, name, &value)
	return value
}

// windows are the layer groups' windows; one full group if a script says nothing.
func windows(t *testing.T, d *datadriven.TestData) []int {
	a, ok := d.Arg("windows")
	if !ok {
		return []int{0}
	}
	list := make([]int, len(a.Vals))
	for i := range list {
		a.Scan(t, i, &list[i])
	}
	return list
}

// scriptLayout is the layout that new makes: a group a window, each of layers= layers that take
// turns in the model, and behind them one that keeps a state of state= bytes, if there is one.
func scriptLayout(t *testing.T, d *datadriven.TestData) kvcache.Layout {
	l := layered(layoutOf(arg(t, d, "tpb", 4), windows(t, d)...), arg(t, d, "layers", 1))
	if d.HasArg("state") {
		l.Groups = append(l.Groups, kvcache.LayerGroup{Layers: []int{layersOf(l)}, StateBytes: arg(t, d, "state", 0)})
	}
	return l
}

// status is a status by its name; ok if a line says nothing.
func status(t *testing.T, d *datadriven.TestData) wire.Status {
	name, s := arg(t, d, "status", "ok"), wire.StatusOK
	for s.String() != name {
		if s++; s > wire.StatusGone {
			d.Fatalf(t, "no status is called %s", name)
		}
	}
	return s
}

// completed is the reader's word: completed [status=ok]
func completed(t *testing.T, d *datadriven.TestData) Completed {
	c := Completed{Status: status(t, d)}
	if c.Status != wire.StatusOK {
		c.Reason = "it left"
	}
	return c
}

func errOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// causeOf is a cause by its name in a script; cancelled is the one that has a meaning.
func causeOf(name string) error {
	if name == "cancelled" {
		return fmt.Errorf("%w: the client left", ErrCancelled)
	}
	return errors.New(name)
}
