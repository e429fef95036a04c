package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The reasons for which KV that was read is not used, as a label (LEASE-14).
const (
	// Lapsed: the slot no longer held the nonce.
	Lapsed = "lapsed"
	// SlotUnread: the slot could not be read.
	SlotUnread = "slot read failed"
	// NoSlot: the request had found no free slot.
	NoSlot = "no slot"
	// FieldsMissing: the handle says nothing of a lease.
	FieldsMissing = "fields missing"
)

// What became of a turn that a handle named, as a label.
const (
	// TurnHit: its KV was read, all or some.
	TurnHit = "hit"
	// TurnMiss: nothing of it was of use, because the prompt begins otherwise.
	TurnMiss = "miss"
	// TurnExpired: its time to live had passed.
	TurnExpired = "expired"
	// TurnFailed: the read failed, and the prompt was computed.
	TurnFailed = "failed"
)

// leases are the metrics of what is held for other engines.
type leases struct {
	expired, afterExpiry prometheus.Counter // vLLM's
	renewals, reclaimed  prometheus.Counter
	unproved, turnHits   *prometheus.CounterVec
}

func newLeases(reg prometheus.Registerer) leases {
	return leases{
		expired:     counter(reg, "kvferry_kv_num_kv_expired_reqs_total", "Computed prompts whose lease ended before they were read."),
		afterExpiry: counter(reg, "kvferry_kv_num_notifications_after_expiry_total", "Notices that a prompt was read which came when its lease had ended."),
		renewals:    counter(reg, "kvferry_lease_renewals_total", "Heartbeats that renewed leases, each those of a whole set."),
		reclaimed:   counter(reg, "kvferry_lease_reclaimed_blocks_total", "Blocks that went back to their pool because a lease ended."),
		unproved:    counters(reg, "kvferry_lease_verification_failures_total", "Loads that were not used, by reason: the lease could not be proved, or the handle or claim was refused.", "reason"),
		turnHits:    counters(reg, "kvferry_turn_hits_total", "Turns that a handle named, by what became of them.", "outcome"),
	}
}

// LeaseExpired counts a lease that ended by itself, and the blocks that it gave back.
func (e *Engine) LeaseExpired(blocks int) {
	e.leases.expired.Inc()
	e.leases.reclaimed.Add(float64(blocks))
}

// CompleteAfterExpiry counts a notice of a read that came too late.
func (e *Engine) CompleteAfterExpiry() { e.leases.afterExpiry.Inc() }

// Renewed counts a heartbeat that renewed a set of leases.
func (e *Engine) Renewed() { e.leases.renewals.Inc() }

// VerificationFailed counts a pull that could not be proved, for one of the reasons above.
func (e *Engine) VerificationFailed(reason string) {
	e.leases.unproved.WithLabelValues(reason).Inc()
}

// TurnPulled counts a turn that a handle named, with one of the outcomes above.
func (e *Engine) TurnPulled(outcome string) { e.leases.turnHits.WithLabelValues(outcome).Inc() }
