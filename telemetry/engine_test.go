package telemetry_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"kvferry/telemetry"
	"kvferry/transfer"
)

// scrape reads metrics as a server of them would: series with their values, and each metric's
// type and help.
func scrape(t *testing.T, h http.Handler) (series map[string]string, types, helps map[string]string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	series, types, helps = map[string]string{}, map[string]string{}, map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, typ, _ := strings.Cut(rest, " ")
			types[name] = typ
		} else if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			helps[name] = help
		} else if i := strings.LastIndexByte(line, ' '); i > 0 {
			series[line[:i]] = line[i+1:]
		}
	}
	return series, types, helps
}

func newEngine() *telemetry.Engine {
	return telemetry.NewEngine("decode", func() telemetry.Gauges {
		return telemetry.Gauges{Blocks: 10, Free: 4, Running: 3, Waiting: 2, Send: 5, Receive: 6, Parked: 7, Peers: 8, Leases: 9, Turns: 11}
	})
}

// Each event moves the series that it is about, by what it says, and no other.
func TestEventsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		event func(*telemetry.Engine)
		want  map[string]string
	}{
		"a pull": {func(e *telemetry.Engine) { e.PullDone(0.5, 0.25, 5000, 7) }, map[string]string{
			"kvferry_kv_xfer_time_seconds_sum{}": "0.5", "kvferry_kv_xfer_time_seconds_count{}": "1",
			"kvferry_kv_post_time_seconds_sum{}": "0.25", "kvferry_kv_post_time_seconds_count{}": "1",
			"kvferry_kv_bytes_transferred_sum{}": "5000", "kvferry_kv_bytes_transferred_count{}": "1",
			"kvferry_kv_num_descriptors_sum{}": "7", "kvferry_kv_num_descriptors_count{}": "1",
		}},
		"a transfer that failed": {func(e *telemetry.Engine) { e.TransferFailed("timeout") }, map[string]string{
			"kvferry_kv_num_failed_transfers_total{}": "1", `kvferry_transfer_failures_total{cause="timeout"}`: "1",
		}},
		"a notice that failed": {func(e *telemetry.Engine) { e.NotificationFailed() }, map[string]string{"kvferry_kv_num_failed_notifications_total{}": "1"}},
		"a lease that ended": {func(e *telemetry.Engine) { e.LeaseExpired(12); e.LeaseExpired(0) }, map[string]string{
			"kvferry_kv_num_kv_expired_reqs_total{}": "2", "kvferry_lease_reclaimed_blocks_total{}": "12",
		}},
		"a late notice": {func(e *telemetry.Engine) { e.CompleteAfterExpiry() }, map[string]string{"kvferry_kv_num_notifications_after_expiry_total{}": "1"}},
		"a heartbeat":   {func(e *telemetry.Engine) { e.Renewed() }, map[string]string{"kvferry_lease_renewals_total{}": "1"}},
		"no proof":      {func(e *telemetry.Engine) { e.VerificationFailed("lapsed") }, map[string]string{`kvferry_lease_verification_failures_total{reason="lapsed"}`: "1"}},
		"a turn":        {func(e *telemetry.Engine) { e.TurnPulled(telemetry.TurnExpired) }, map[string]string{`kvferry_turn_hits_total{outcome="expired"}`: "1"}},
		"an end that is not well": {func(e *telemetry.Engine) { e.Ended("decode", "failed", 100) }, map[string]string{
			`kvferry_requests_total{leg="decode",outcome="failed"}`: "1",
		}},
		"a slice": {func(e *telemetry.Engine) { e.Landed("in", 64) }, map[string]string{
			`kvferry_transfer_slices_total{direction="in"}`: "1", `kvferry_transfer_bytes_total{direction="in"}`: "64",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine()
			before, _, _ := scrape(t, e.Handler())
			c.event(e)
			after, _, _ := scrape(t, e.Handler())
			moved := map[string]string{}
			for s, v := range after {
				if s = ours(s); s != "" && v != before[withRole(s)] && !strings.Contains(s, "_bucket{") {
					moved[s] = v
				}
			}
			if !maps.Equal(moved, c.want) {
				t.Errorf("moved %v\nwant  %v", moved, c.want)
			}
		})
	}
}

const role = `role="decode"`

// ours is a series without the role that all have, or nothing for those of the Go runtime.
func ours(series string) string {
	if !strings.HasPrefix(series, "kvferry_") || !strings.Contains(series, role) {
		return ""
	}
	return strings.NewReplacer(","+role, "", role+",", "", role, "").Replace(series)
}

// withRole undoes ours: role comes behind leg, outcome, reason, cause and direction.
func withRole(s string) string {
	name, labels, _ := strings.Cut(strings.TrimSuffix(s, "}"), "{")
	all := []string{role}
	if labels != "" {
		all = append(all, strings.Split(labels, ",")...)
	}
	slices.Sort(all)
	return name + "{" + strings.Join(all, ",") + "}"
}

// What can be counted is there as 0 before it happens: a rate has its first event.
func TestKnownSeriesAreThere(t *testing.T) {
	series, _, _ := scrape(t, newEngine().Handler())
	want := []string{
		"kvferry_kv_num_failed_transfers_total{}", "kvferry_kv_xfer_time_seconds_count{}", "kvferry_lease_renewals_total{}",
		`kvferry_requests_total{leg="decode",outcome="ok"}`, `kvferry_transfer_bytes_total{direction="out"}`,
		`kvferry_transfer_failures_total{cause="checksum"}`,
	}
	for _, reason := range []string{transfer.ReasonLapsed, transfer.ReasonSlotRead, transfer.ReasonNoSlot, transfer.ReasonFields} {
		want = append(want, `kvferry_lease_verification_failures_total{reason="`+reason+`"}`)
	}
	for _, outcome := range []string{"hit", "miss", "expired", "failed"} {
		want = append(want, `kvferry_turn_hits_total{outcome="`+outcome+`"}`)
	}
	for _, s := range want {
		if v := series[withRole(s)]; v != "0" {
			t.Errorf("%s is %q", s, v)
		}
	}
}

// Gauges are of the moment of the scrape.
func TestGauges(t *testing.T) {
	series, _, _ := scrape(t, newEngine().Handler())
	for s, want := range map[string]string{
		`kvferry_blocks{state="free"}`: "4", `kvferry_blocks{state="held"}`: "6",
		`kvferry_requests{state="running"}`: "3", `kvferry_requests{state="waiting"}`: "2",
		`kvferry_sessions{kind="send"}`: "5", `kvferry_sessions{kind="receive"}`: "6",
		`kvferry_parked_registrations{}`: "7", `kvferry_peers{}`: "8", `kvferry_leases{}`: "9", `kvferry_turns{}`: "11",
	} {
		if got := series[withRole(s)]; got != want {
			t.Errorf("%s is %q, want %s", s, got, want)
		}
	}
}
