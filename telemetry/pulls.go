package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The bounds of what a pull may have: 4 KiB to 64 GiB, and 1 to 262144 descriptors.
var (
	byteBounds       = prometheus.ExponentialBuckets(4096, 4, 13)
	descriptorBounds = prometheus.ExponentialBuckets(1, 4, 10)
)

// pulls are the metrics of transfers that dashboards know from vLLM's NIXL connector, one to one.
type pulls struct {
	xfer, post, bytes, descriptors prometheus.Histogram
	failed, unnoticed              prometheus.Counter
}

func newPulls(reg prometheus.Registerer) pulls {
	return pulls{
		xfer:        histogram(reg, "kvferry_kv_xfer_time_seconds", "From the post of a pull's first read to the end of its last one."),
		post:        histogram(reg, "kvferry_kv_post_time_seconds", "Time that it took to post a pull's reads."),
		bytes:       sized(reg, "kvferry_kv_bytes_transferred", "Bytes of a pull.", byteBounds),
		descriptors: sized(reg, "kvferry_kv_num_descriptors", "Descriptors of a pull, which are pieces of memory on both sides.", descriptorBounds),
		failed:      counter(reg, "kvferry_kv_num_failed_transfers_total", "Transfers that failed, whatever the cause and the direction."),
		unnoticed:   counter(reg, "kvferry_kv_num_failed_notifications_total", "Notices to another engine that could not be sent."),
	}
}

// PullDone counts a pull whose reads ended well: how long its reads took and how long it took to
// post them, in seconds, what they brought, and in how many pieces.
func (e *Engine) PullDone(xfer, post float64, bytes uint64, descriptors int) {
	e.pulls.xfer.Observe(xfer)
	e.pulls.post.Observe(post)
	e.pulls.bytes.Observe(float64(bytes))
	e.pulls.descriptors.Observe(float64(descriptors))
}

// NotificationFailed counts a notice that did not reach the other engine.
func (e *Engine) NotificationFailed() { e.pulls.unnoticed.Inc() }
