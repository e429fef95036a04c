package lease

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// req: LEASE-26
//
// TestRun: the bench runs with few leases, what must expire does, within a step, and a quiet
// heartbeat meets the goal; by request it grows with the leases.
func TestRun(t *testing.T) {
	o := DefaultOptions()
	o.Leases, o.Peers, o.Changes, o.Duration, o.Periods = 2000, 10, 500, 6*time.Second, 2
	said := 0
	o.Say = func(string) { said++ }
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if said == 0 {
		t.Error("said nothing")
	}
	if got := r.Quiet.Sets.BeatBytes; got > GoalBytes {
		t.Errorf("a quiet heartbeat has %v bytes, want at most %d", got, GoalBytes)
	}
	if got := r.Quiet.Named.BeatBytes; got < 200*36 {
		t.Errorf("a heartbeat that names 200 requests has %v bytes", got)
	}
	if r.Expiry.Leases != 200 || r.Expiry.Late >= float64(step)/1e9 {
		t.Errorf("%d leases expired, up to %v s late", r.Expiry.Leases, r.Expiry.Late)
	}
	if r.ChangesMade != 500*12 {
		t.Errorf("%d changes in 12 s at 500/s", r.ChangesMade)
	}
	if got := r.Resync; got.Leases != 200 || got.Bytes < 200*36 || got.Bytes > 200*100 {
		t.Errorf("resync: %+v", got)
	}
	var table bytes.Buffer
	if err := r.Table(&table); err != nil || !strings.Contains(table.String(), "quiet, by request") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// TestOptions: what cannot be is refused by name.
func TestOptions(t *testing.T) {
	for name, change := range map[string]func(o *Options){
		"peers":    func(o *Options) { o.Peers = 0 },
		"leases":   func(o *Options) { o.Leases = 99 },
		"duration": func(o *Options) { o.Duration = time.Second - 1 },
		"changes":  func(o *Options) { o.Changes = -1 },
		"expiring": func(o *Options) { o.Expiring = 1 },
		"periods":  func(o *Options) { o.Periods = 0 },
	} {
		o := DefaultOptions()
		change(&o)
		if _, err := Run(o); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
