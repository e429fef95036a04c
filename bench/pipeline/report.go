package pipeline

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// Report is what was measured. All times are medians in seconds.
type Report struct {
	Model        string `json:"model"`
	PromptTokens int    `json:"prompt_tokens"`
	// KVBytes is the size of the prompt's KV, KVRate how many of its bytes are computed in a
	// second.
	KVBytes uint64  `json:"kv_bytes"`
	KVRate  float64 `json:"kv_bytes_per_second"`
	Rounds  int     `json:"rounds"`
	Rows    []Row   `json:"rows"`
}

// Row is one setting.
type Row struct {
	// Bandwidth is the link's, in bytes a second.
	Bandwidth int64 `json:"bandwidth"`
	// Mode is monolithic, pipelined or layer-wise, Chunks how many pieces the prompt is computed in, and
	// Slices how many it is sent in.
	Mode   string `json:"mode"`
	Chunks int    `json:"chunks"`
	Slices int    `json:"slices"`
	// Compute is how long prefill took, Transfer how long something was in flight; Hidden is
	// the part of that while prefill computed, and Exposed the rest. PIPE-27
	Compute  float64 `json:"compute_seconds"`
	Transfer float64 `json:"transfer_seconds"`
	Hidden   float64 `json:"hidden_seconds"`
	Exposed  float64 `json:"exposed_seconds"`
	// FirstToken is the time to first token on the client's clock.
	FirstToken float64 `json:"first_token_seconds"`
	// Ideal is what only the last chunk's transfer would take: the monolithic transfer over
	// the number of chunks. Ratio is Exposed over it.
	Ideal float64 `json:"ideal_seconds"`
	Ratio float64 `json:"ratio"`
	// Hideable says that a chunk's transfer takes less than its computing, without which the
	// ideal cannot be had.
	Hideable bool `json:"hideable"`
}

// newRow takes a setting's samples, and those of the monolithic setting beside it.
func newRow(bandwidth int64, mode string, chunks int, own, mono []sample) Row {
	of := func(list []sample, f func(sample) float64) float64 {
		v := make([]float64, len(list))
		for i, s := range list {
			v[i] = f(s)
		}
		return median(v)
	}
	r := Row{
		Bandwidth: bandwidth, Mode: mode, Chunks: chunks, Slices: own[0].Slices,
		Compute:    of(own, func(s sample) float64 { return s.Prefill }),
		Transfer:   of(own, func(s sample) float64 { return s.Transfer }),
		Hidden:     of(own, func(s sample) float64 { return s.Hidden }),
		Exposed:    of(own, func(s sample) float64 { return s.Exposed }),
		FirstToken: of(own, func(s sample) float64 { return s.firstToken }),
	}
	whole := of(mono, func(s sample) float64 { return s.Transfer })
	r.Ideal = whole / float64(chunks)
	r.Ratio = r.Exposed / r.Ideal
	r.Hideable = whole < of(mono, func(s sample) float64 { return s.Prefill })
	return r
}

func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "%s, prompt of %d tokens, %s of KV, computed at %s; medians of %d, times in ms\n\n",
		r.Model, r.PromptTokens, sizeText(float64(r.KVBytes)), rateText(r.KVRate), r.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "link\tmode\tchunks\tcompute\ttransfer\thidden\texposed\tfirst token\tideal\tratio\t")
	for _, row := range r.Rows {
		note := ""
		if !row.Hideable {
			note = "*"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f%s\t\n",
			rateText(float64(row.Bandwidth)), row.Mode, row.Chunks, ms(row.Compute), ms(row.Transfer), ms(row.Hidden),
			ms(row.Exposed), ms(row.FirstToken), ms(row.Ideal), row.Ratio, note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "\nideal: the monolithic transfer over the number of chunks; ratio: exposed over ideal.\n"+
		"*: a chunk's transfer takes longer than its computing, so that some of it must show.\n")
	return err
}

func ms(seconds float64) string { return strconv.FormatFloat(seconds*1000, 'f', 1, 64) }

func rateText(bytesPerSecond float64) string { return sizeText(bytesPerSecond) + "/s" }

// sizeText gives bytes in the largest decimal unit that leaves a whole number.
func sizeText(bytes float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for bytes >= 1000 && i < len(units)-1 {
		bytes /= 1000
		i++
	}
	return strconv.FormatFloat(bytes, 'g', 3, 64) + " " + units[i]
}
