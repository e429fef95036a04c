package sim

import "testing"

// lapsing are the faults by which leases lapse while readers live.
const lapsing = "heartbeat,partition,stall,pressure,cancel"

// Without verification readers use what they read of leases that had lapsed; the same runs with it
// never do. What proves the reads is then the slots, and nothing that this simulator is kind about.
//
// req: LEASE-12 LEASE-15 LEASE-18
func TestWithoutProofKVIsWrong(t *testing.T) {
	on := faults(t, lapsing)
	wrong, broken := 0, 0
	for seed := range uint64(1500) {
		p := Generate(seed, on, Nodes{})
		if p.Cluster.Slots == 0 {
			continue
		}
		p.Cluster.Unverified = true
		bad := Run(p, Options{}).Violation
		if bad == nil {
			continue
		}
		broken++
		if bad.Rule == "right bytes" {
			wrong++
			p.Cluster.Unverified = false
			if bad := Run(p, Options{}).Violation; bad != nil {
				t.Errorf("seed %d, verified: %v", seed, bad)
			}
		}
	}
	t.Logf("%d seeds read wrong KV", wrong)
	if wrong < 3 || wrong != broken {
		t.Errorf("%d seeds break a rule and %d of them read wrong KV", broken, wrong)
	}
}
