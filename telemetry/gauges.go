package telemetry

import "github.com/prometheus/client_golang/prometheus"

// gauges reads all of an engine's gauges at one instant of a scrape.
type gauges struct {
	read  func() Gauges
	descs map[string]*prometheus.Desc
}

func newGauges(read func() Gauges) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &gauges{read: read, descs: map[string]*prometheus.Desc{
		"blocks":   desc("kvferry_blocks", "Blocks of all pools, by state.", "state"),
		"requests": desc("kvferry_requests", "Requests that are here, by state.", "state"),
		"sessions": desc("kvferry_sessions", "Open transfer sessions, by kind.", "kind"),
		"parked":   desc("kvferry_parked_registrations", "Registrations that wait for their request."),
		"peers":    desc("kvferry_peers", "Engines that are connected."),
		"leases":   desc("kvferry_leases", "Computed prompts that are held under a lease for another engine to read."),
		"turns":    desc("kvferry_turns", "Finished turns that are held for their conversation's next one."),
	}}
}

func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	v := g.read()
	put := func(name string, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(g.descs[name], prometheus.GaugeValue, float64(value), labels...)
	}
	put("blocks", v.Free, "free")
	put("blocks", v.Blocks-v.Free, "held")
	put("requests", v.Running, "running")
	put("requests", v.Waiting, "waiting")
	put("sessions", v.Send, "send")
	put("sessions", v.Receive, "receive")
	put("parked", v.Parked)
	put("peers", v.Peers)
	put("leases", v.Leases)
	put("turns", v.Turns)
}
