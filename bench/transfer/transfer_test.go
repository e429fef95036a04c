package transfer

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"kvferry/agent"
	"kvferry/agent/tcp"
)

func openTCP(string) (agent.Agent, error) {
	return tcp.New(tcp.Options{Log: slog.New(slog.DiscardHandler)}), nil
}

// inProcess is a peer that is a goroutine of ours.
func inProcess(name string, total int) (*Process, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(openTCP, name, total, inR, outW)
		outW.CloseWithError(err)
		ended <- err
	}()
	return &Process{In: inW, Out: outR, Wait: func() error { return <-ended }}, nil
}

func small() Options {
	o := DefaultOptions()
	o.Agents, o.Blocks, o.Total, o.Rounds, o.Peers, o.Pings = []string{"tcp"}, []int{4096, 65536}, 1<<20, 2, 2, 5
	o.Open, o.Peer = openTCP, inProcess
	return o
}

func TestRun(t *testing.T) {
	rep, err := Run(small())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 4 || len(rep.Pings) != 1 {
		t.Fatalf("%d rows and %d pings", len(rep.Rows), len(rep.Pings))
	}
	for _, r := range rep.Rows {
		if r.Rate <= 0 || r.Min > r.Rate || r.Rate > r.Max || r.PerBlock <= 0 || len(r.samples) != 2 {
			t.Errorf("%+v", r)
		}
	}
	if p := rep.Pings[0]; p.IdleP50 <= 0 || p.IdleP50 > p.IdleP99 || p.BusyP50 > p.BusyP99 || p.BusyP99 > p.BusyMost {
		t.Errorf("%+v", p)
	}
	var table bytes.Buffer
	if err := rep.Table(&table); err != nil || !strings.Contains(table.String(), "64 KiB") {
		t.Errorf("%v\n%s", err, table.String())
	}
	if b, err := json.Marshal(rep); err != nil || !bytes.Contains(b, []byte(`"bytes_per_cpu_second"`)) {
		t.Errorf("%v, %s", err, b)
	}
}

// lying gives another sum than the memory's.
type lying struct{ io.Reader }

func (l lying) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	for i := range b[:n] {
		if b[i] >= '0' && b[i] <= '8' && n > 8 && n < 12 { // a sum alone has 9 or 10 digits
			b[i]++
		}
	}
	return n, err
}

// What did not arrive where it should is no measurement.
func TestWrongBytesAreSeen(t *testing.T) {
	o := small()
	o.Ops = []string{opWrite}
	o.Peer = func(name string, total int) (*Process, error) {
		p, err := inProcess(name, total)
		p.Out = lying{p.Out}
		return p, err
	}
	if _, err := Run(o); err == nil || !strings.Contains(err.Error(), "sum") {
		t.Errorf("%v", err)
	}
}

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"agents": func(o *Options) { o.Agents = nil },
		"rounds": func(o *Options) { o.Rounds = 0 },
		"peers":  func(o *Options) { o.Peers = 0 },
		"pings":  func(o *Options) { o.Pings = -1 },
		"blocks": func(o *Options) { o.Blocks = []int{3 << 19} },
		"ops":    func(o *Options) { o.Ops = []string{"append"} },
	} {
		o := small()
		change(&o)
		if _, err := Run(o); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
