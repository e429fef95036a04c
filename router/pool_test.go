package router

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestPool runs the scripts of testdata/pool.
func TestPool(t *testing.T) {
	datadriven.Walk(t, "testdata/pool", func(t *testing.T, path string) {
		s := &poolScript{polls: map[string]Poll{}}
		datadriven.RunTest(t, path, s.run)
	})
}

type poolScript struct {
	pool  *Pool
	polls map[string]Poll
}

func (s *poolScript) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		var p, dec string
		d.ScanArgs(t, "prefill", &p)
		d.ScanArgs(t, "decode", &dec)
		s.pool = NewPool(strings.Split(p, "+"), strings.Split(dec, "+"))
		return ""
	case "engines":
		return s.show()
	case "ask": // a poll of an engine begins
		s.polls[s.url(t, d)] = s.pool.Ask(s.index(t, d))
		return ""
	case "answer": // the engine's report, to the poll that began last or just now
		return change(s.pool.Answered(s.poll(t, d), s.report(t, d)))
	case "silent":
		return change(s.pool.Silent(s.poll(t, d), "cannot be reached"))
	case "lost": // a request's connection failed
		var life string
		d.ScanArgs(t, "life", &life)
		return change(s.pool.Lost(s.index(t, d), life, "lost a request's connection"))
	case "pick":
		return s.pick(t, d)
	case "other":
		return s.other(t, d)
	case "lives":
		var life string
		d.ScanArgs(t, "life", &life)
		return fmt.Sprintf("%v\n", s.pool.Lives(s.index(t, d), life))
	case "models":
		return fmt.Sprintf("%+v, ready: %v\n", s.pool.Models(), s.pool.Ready())
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

func (s *poolScript) url(t *testing.T, d *datadriven.TestData) string {
	if len(d.CmdArgs) == 0 {
		d.Fatalf(t, "no engine named")
	}
	return d.CmdArgs[0].Key
}

func (s *poolScript) index(t *testing.T, d *datadriven.TestData) int {
	return s.place(t, d, s.url(t, d))
}

func (s *poolScript) place(t *testing.T, d *datadriven.TestData, url string) int {
	for _, e := range s.pool.Engines() {
		if e.URL == url {
			return e.Index
		}
	}
	d.Fatalf(t, "no engine %s", url)
	return 0
}

// other chooses an engine that is none of those named by not=a+b.
func (s *poolScript) other(t *testing.T, d *datadriven.TestData) string {
	var not string
	d.MaybeScanArgs(t, "not", &not)
	var tried []int
	for _, url := range strings.FieldsFunc(not, func(c rune) bool { return c == '+' }) {
		tried = append(tried, s.place(t, d, url))
	}
	role, model := Prefill, "m"
	if d.HasArg("decode") {
		role = Decode
	}
	d.MaybeScanArgs(t, "model", &model)
	e, ok := s.pool.Other(role, model, tried)
	if !ok {
		return "none\n"
	}
	return e.URL + "\n"
}

func (s *poolScript) poll(t *testing.T, d *datadriven.TestData) Poll {
	url := s.url(t, d)
	poll, ok := s.polls[url]
	if !ok {
		return s.pool.Ask(s.index(t, d))
	}
	delete(s.polls, url)
	return poll
}

func (s *poolScript) report(t *testing.T, d *datadriven.TestData) Report {
	e := s.pool.Engines()[s.index(t, d)]
	r := Report{
		Ready: !d.HasArg("unready"), Draining: d.HasArg("draining"),
		Role: e.Role.String(), Life: e.URL + "-1", Model: "m", Agent: e.URL + ":9",
	}
	d.MaybeScanArgs(t, "context", &r.Context)
	d.MaybeScanArgs(t, "role", &r.Role)
	d.MaybeScanArgs(t, "life", &r.Life)
	d.MaybeScanArgs(t, "model", &r.Model)
	for _, missing := range d.CmdArgs {
		switch missing.Key {
		case "no-agent":
			r.Agent = ""
		case "no-life":
			r.Life = ""
		case "no-model":
			r.Model = ""
		}
	}
	return r
}

func (s *poolScript) pick(t *testing.T, d *datadriven.TestData) string {
	c, times := Choice{Model: "m", Near: -1, Alone: d.HasArg("alone")}, 1
	d.MaybeScanArgs(t, "model", &c.Model)
	if d.HasArg("near") {
		var url string
		d.ScanArgs(t, "near", &url)
		c.Near = s.place(t, d, url)
	}
	d.MaybeScanArgs(t, "times", &times)
	var b strings.Builder
	for range times {
		pair, err := s.pool.Pick(c)
		if err != nil {
			fmt.Fprintf(&b, "refused: %v\n", err)
			continue
		}
		fmt.Fprintf(&b, "%s + %s\n", cmp.Or(pair.Prefill.URL, "none"), pair.Decode.URL)
	}
	return b.String()
}

func (s *poolScript) show() string {
	var b strings.Builder
	for _, e := range s.pool.Engines() {
		fmt.Fprintf(&b, "%v %s: %s\n", e.Role, e.URL, state(e))
	}
	return b.String()
}

func change(c Change) string {
	out := state(c.Engine)
	if c.Turned {
		out += ", turned"
	}
	if c.NewLife {
		out += ", new life"
	}
	return out + "\n"
}

func state(e Engine) string {
	if e.Ready {
		return "ready, life " + e.Report.Life
	}
	return e.Why
}
