package transfer

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Report is what was measured. Bytes count once, though they are read at one end and written at
// the other.
type Report struct {
	Total  int      `json:"total_bytes"`
	Peers  int      `json:"peers"`
	Rounds int      `json:"rounds"`
	Rows   []*Row   `json:"transfers"`
	Pings  []*Pings `json:"small_messages,omitempty"`
}

// Row is one agent moving blocks of one size in one way.
type Row struct {
	Agent string `json:"agent"`
	Op    string `json:"op"`
	Block int    `json:"block_bytes"`
	// Rate is the median in bytes a second, and Min and Max the ends.
	Rate float64 `json:"bytes_per_second"`
	Min  float64 `json:"min_bytes_per_second"`
	Max  float64 `json:"max_bytes_per_second"`
	// PerProcessor is the median of the bytes a second of processor, of all processes.
	PerProcessor float64 `json:"bytes_per_cpu_second"`
	// PerBlock is the median of nanoseconds a block.
	PerBlock float64 `json:"ns_per_block"`

	samples []sample
}

// Pings are the times of small messages to the peer and back, in seconds.
type Pings struct {
	Agent    string  `json:"agent"`
	IdleP50  float64 `json:"idle_p50"`
	IdleP99  float64 `json:"idle_p99"`
	BusyP50  float64 `json:"beside_bulk_p50"`
	BusyP99  float64 `json:"beside_bulk_p99"`
	BusyMost float64 `json:"beside_bulk_max"`
}

func newReport(o Options) Report { return Report{Total: o.Total, Peers: o.Peers, Rounds: o.Rounds} }

func (r *Report) add(name, op string, block int, s sample) {
	i := slices.IndexFunc(r.Rows, func(w *Row) bool { return w.Agent == name && w.Op == op && w.Block == block })
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, &Row{Agent: name, Op: op, Block: block})
	}
	r.Rows[i].take(s, float64(r.Total*r.Peers))
}

func (w *Row) take(s sample, bytes float64) {
	w.samples = append(w.samples, s)
	rates, per := make([]float64, len(w.samples)), make([]float64, len(w.samples))
	for i, s := range w.samples {
		rates[i], per[i] = bytes/s.wall, bytes/max(s.processor, 1e-6)
	}
	w.Rate, w.Min, w.Max = quantile(rates, 0.5), slices.Min(rates), slices.Max(rates)
	w.PerProcessor = quantile(per, 0.5)
	w.PerBlock = 1e9 * float64(w.Block) / w.Rate
}

func (r *Report) ping(name string, idle, busy []float64) {
	r.Pings = append(r.Pings, &Pings{
		Agent: name, IdleP50: quantile(idle, 0.5), IdleP99: quantile(idle, 0.99),
		BusyP50: quantile(busy, 0.5), BusyP99: quantile(busy, 0.99), BusyMost: slices.Max(busy),
	})
}

// quantile of values that need not be sorted; there is at least one.
func quantile(v []float64, q float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d MiB in permuted blocks, %d peers, medians of %d rounds\n\n", r.Total>>20, r.Peers, r.Rounds)
	fmt.Fprintln(t, "agent\top\tblock\tGB/s\tmin\tmax\tGB/CPU s\tns/block\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", row.Agent, row.Op, size(row.Block), row.Rate/1e9, row.Min/1e9, row.Max/1e9, row.PerProcessor/1e9, row.PerBlock)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Pings) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nsmall messages, to the peer and back")
	fmt.Fprintln(t, "agent\tidle p50\tp99\tbeside bulk p50\tp99\tmax\t")
	for _, p := range r.Pings {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", p.Agent, ms(p.IdleP50), ms(p.IdleP99), ms(p.BusyP50), ms(p.BusyP99), ms(p.BusyMost))
	}
	return t.Flush()
}

func ms(s float64) string { return fmt.Sprintf("%.3f ms", 1e3*s) }

func size(b int) string {
	if b >= 1<<20 && b%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", b>>20)
	}
	if b%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", b>>10)
	}
	return fmt.Sprint(b)
}
