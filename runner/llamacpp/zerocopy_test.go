//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"kvferry/kvcache"
	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// tapped opens a model whose rows are taken straight from llama.cpp's memory.
func tapped(t testing.TB, path string, opt Options) *Runner {
	t.Helper()
	var log bytes.Buffer
	opt.Log = slog.New(slog.NewTextHandler(&log, nil))
	r := opened(t, path, opt)
	if !r.tapping {
		t.Fatalf("rows go by states: %s", log.String())
	}
	return r
}

// step is one sequence's work in a pass of a script.
type step struct {
	name  string
	count int
}

// play runs passes, in which each sequence goes on where it was, and gives all logits.
func play(t *testing.T, r *Runner, passes [][]step) [][]float32 {
	t.Helper()
	var out [][]float32
	at := map[string]int{}
	for _, steps := range passes {
		var batch []runner.Work
		for _, s := range steps {
			first := int(s.name[0]-'a') * 8
			logits := make([]float32, r.Model().Vocab)
			batch = append(batch, runner.Work{
				Sequence: s.name, Tokens: tokensOf(at[s.name]+s.count, first)[at[s.name]:], Start: at[s.name],
				Tables: tables(len(r.Layout().Groups), first, 8+40*(first/32)), Logits: logits,
			})
			at[s.name] += s.count
			out = append(out, logits)
		}
		if err := r.Forward(batch); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// scattered are passes in which "d" takes the cells of "b", which has been dropped, and some behind all
// others, and "e" is computed in more than one llama.cpp batch.
var scattered = [][]step{
	{{"a", 20}, {"b", 30}, {"c", 10}},
	{{"a", 1}, {"c", 3}},
	{{"a", 1}, {"c", 1}, {"d", 45}},
	{{"d", 1}, {"a", 5}, {"e", 560}},
	{{"e", 1}, {"d", 1}},
}

// TestZeroCopy: blocks and logits are the same to the last bit whether rows are taken from llama.cpp's
// memory or from its states, in whatever cells they are.
//
// req: SERVE-05
func TestZeroCopy(t *testing.T) {
	needLibrary(t)
	for name, path := range map[string]string{
		"full":   random(t, reftest.ModelOptions{Layers: 3, KVHeads: 2, HeadDim: 32, Context: 1024}),
		"window": windowModel(t),
	} {
		for _, kv := range []kvcache.DType{kvcache.F16, kvcache.F32, kvcache.Q8_0} {
			t.Run(name+"/"+kv.String(), func(t *testing.T) {
				opt := Options{KV: kv, Context: 1024, Sequences: 4}
				zero := tapped(t, path, opt)
				opt.StateAPI = true
				states := opened(t, path, opt)
				if states.tapping || states.tap != nil {
					t.Fatal("states were asked for")
				}
				want := play(t, states, scattered)
				if got := play(t, zero, scattered[:3]); !slices.EqualFunc(got, want[:len(got)], slices.Equal) {
					t.Error("logits differ in the first passes")
				}
				d := zero.tap.cells[0][2:]
				if slices.IsSorted(d) && d[len(d)-1]-d[0] == int64(len(d)-1) {
					t.Errorf("cells %v lie in a row: this shows nothing", d)
				}
				if got := play(t, zero, scattered); !slices.EqualFunc(got, want, slices.Equal) {
					t.Error("logits differ")
				}
				for g := range zero.rows.pools {
					if !bytes.Equal(zero.rows.pools[g], states.rows.pools[g]) {
						t.Errorf("blocks of layer group %d differ", g)
					}
				}
			})
		}
	}
}

// TestZeroCopyImport: the logits after an import are those of the run that computed it, with rows from
// memory or from states on either side.
//
// req: SERVE-05
func TestZeroCopyImport(t *testing.T) {
	path := random(t, reftest.ModelOptions{Layers: 3, KVHeads: 2, HeadDim: 32, Context: 1024})
	for _, kv := range []kvcache.DType{kvcache.F16, kvcache.F32} {
		for _, states := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			importIsExact(t, opened(t, path, Options{KV: kv, StateAPI: states[0]}), opened(t, path, Options{KV: kv, StateAPI: states[1]}), tokensOf(120, 1), 100)
		}
	}
}

// layerOf is what the blocks have of a work's tokens in a layer of the model.
func layerOf(r *Runner, w *runner.Work, layer int) []byte {
	var out []byte
	p := places(r.rows.layout.Groups)[layer]
	r.rows.each(p.group, w.Tables[p.group], w.Start, w.Start+len(w.Tokens), func(l, _, _, block, _, size int) {
		if l == p.layer {
			out = append(out, r.rows.pools[p.group][block:block+size]...)
		}
	})
	return out
}

// TestWritten: a work is told of each layer, in order, when the rows of all its tokens are in the
// blocks for good and those of the layer above are not there yet. Works that share a pass are told
// each, and one that need not be is not.
//
// req: SERVE-05
func TestWritten(t *testing.T) {
	for name, path := range map[string]string{"full": llamaModel(t), "window": windowModel(t)} {
		t.Run(name, func(t *testing.T) {
			r := tapped(t, path, Options{Context: 1024, Sequences: 4})
			groups, layers := len(r.Layout().Groups), len(r.places)
			for g := range r.rows.pools {
				for i := range r.rows.pools[g] {
					r.rows.pools[g][i] = 0xff
				}
			}
			// The second one's tokens are in two llama.cpp batches.
			batch := []runner.Work{
				{Sequence: "a", Tokens: tokensOf(40, 1), Tables: tables(groups, 0, 3)},
				{Sequence: "b", Tokens: tokensOf(600, 2), Tables: tables(groups, 3, 38)},
				{Sequence: "c", Tokens: tokensOf(30, 3), Tables: tables(groups, 41, 2)},
			}
			told := make([][]int, len(batch))
			then := make([][][]byte, len(batch))
			for _, i := range []int{0, 1} {
				w := &batch[i]
				w.Written = func(through int) {
					told[i] = append(told[i], through)
					then[i] = append(then[i], layerOf(r, w, through-1))
					if through == layers {
						return
					}
					above := layerOf(r, w, through)
					if above = above[len(above)-r.Layout().RowBytes():]; !bytes.Equal(above, bytes.Repeat([]byte{0xff}, len(above))) {
						t.Errorf("work %d: the layer above %d is written", i, through)
					}
				}
			}
			if err := r.Forward(batch); err != nil {
				t.Fatal(err)
			}
			var all []int
			for through := range layers {
				all = append(all, through+1)
			}
			for _, i := range []int{0, 1} {
				if !slices.Equal(told[i], all) {
					t.Fatalf("work %d was told of %v, want %v", i, told[i], all)
				}
				for layer := range layers {
					if !bytes.Equal(then[i][layer], layerOf(r, &batch[i], layer)) {
						t.Errorf("work %d: layer %d changed after it was told", i, layer)
					}
				}
			}
		})
	}
}

// TestGate: llama.cpp calls into Go only until the cells of a batch are known, if nobody waits for a
// layer, and else twice for what writes rows and once when it has.
func TestGate(t *testing.T) {
	r := tapped(t, llamaModel(t), Options{})
	asked, done := 0, 0
	look := r.tap.gate.look
	r.tap.gate.look = func(t *tensor, ask bool) bool {
		if ask {
			asked++
		} else {
			done++
		}
		return look(t, ask)
	}
	pass(t, r, "a", tokensOf(20, 1), 0, table(0, 3))
	if asked != 1 || done != 0 {
		t.Errorf("%d questions and %d looks for a pass that nobody waits for", asked, done)
	}
	asked = 0
	w := runner.Work{Sequence: "a", Tokens: []int32{1}, Start: 20, Tables: table(0, 3), Written: func(int) {}}
	if err := r.Forward([]runner.Work{w}); err != nil {
		t.Fatal(err)
	}
	if layers := len(r.places); asked != 2*layers || done != layers {
		t.Errorf("%d questions and %d looks for %d layers", asked, done, layers)
	}
}

// TestSurprise: where llama.cpp does not compute as when it was tried, rows go by states from then on,
// are the same, and one log line says why.
func TestSurprise(t *testing.T) {
	path := llamaModel(t)
	want := opened(t, path, Options{Sequences: 4, StateAPI: true})
	logits := play(t, want, scattered)
	for reason, change := range map[string]func(*tap){
		"where none were":  func(p *tap) { clear(p.slots) },
		"behind the first": func(p *tap) { p.layers[0].base[0] = unsafe.Add(p.layers[0].base[0], -p.row) },
		"goes to cell":     func(p *tap) { p.layers[0].cells[0] = 1 },
		"nothing wrote":    func(p *tap) { p.gate.look = func(*tensor, bool) bool { return false } },
		"it cut the batch": func(p *tap) { p.gate.look = func(t *tensor, ask bool) bool { p.look(t, ask); return p.look(t, ask) } },
		"60 cells for 21":  func(p *tap) { p.gate.look = func(t *tensor, ask bool) bool { p.tokens = 21; return p.look(t, ask) } },
		"no cells for the rows": func(p *tap) {
			p.gate.look = func(t *tensor, ask bool) bool { u := *t; u.src[1] = nil; return p.look(&u, ask) }
		},
		"numbers of type": func(p *tap) {
			p.gate.look = func(t *tensor, ask bool) bool { u := *t; u.src[1] = t.viewSrc; return p.look(&u, ask) }
		},
	} {
		t.Run(reason, func(t *testing.T) {
			var log bytes.Buffer
			r := opened(t, path, Options{Sequences: 4, Log: slog.New(slog.NewTextHandler(&log, nil))})
			change(r.tap)
			if got := play(t, r, scattered); !slices.EqualFunc(got, logits, slices.Equal) {
				t.Error("logits differ")
			}
			if !bytes.Equal(r.rows.pools[0], want.rows.pools[0]) {
				t.Error("blocks differ")
			}
			if line := log.String(); r.tapping || strings.Count(line, "\n") != 1 || !strings.Contains(line, reason) {
				t.Errorf("log: %q", line)
			}
		})
	}
}

// TestSurpriseAfterLayersLeft: what was told cannot be taken back, so that the pass fails; the next one
// goes by states.
func TestSurpriseAfterLayersLeft(t *testing.T) {
	r := tapped(t, llamaModel(t), Options{})
	w := runner.Work{Sequence: "a", Tokens: tokensOf(20, 1), Tables: table(0, 3)}
	w.Written = func(int) { clear(r.tap.slots) }
	if err := r.Forward([]runner.Work{w}); !errors.Is(err, errTold) || !errors.Is(err, errTap) {
		t.Fatalf("%v", err)
	}
	if r.tapping || len(r.held) != 0 {
		t.Errorf("tapping %v, %d sequences held", r.tapping, len(r.held))
	}
	if err := r.Forward([]runner.Work{w}); err != nil {
		t.Error(err)
	}
}

// TestTrial: rows in memory that are not those of the states are found out when a model is loaded, and
// so is all else that is not as it was known; a log line says so.
func TestTrial(t *testing.T) {
	path := llamaModel(t)
	for reason, change := range map[string]func(*Runner){
		"not those of the states": func(r *Runner) {
			r.tap.gate.look = func(t *tensor, ask bool) bool {
				if !ask { // each token's row is taken for another one's
					slices.Reverse(r.tap.cells[0])
					defer slices.Reverse(r.tap.cells[0])
				}
				return r.tap.look(t, ask)
			}
		},
		"nothing wrote": func(r *Runner) { r.tap.gate.look = func(*tensor, bool) bool { return false } },
		"no such call":  func(r *Runner) { r.tap, r.tapless = nil, errors.New("no such call") },
		"second tensor": func(r *Runner) {
			name := "cache_k_l0"
			r.tap.gate.look = func(t *tensor, ask bool) bool {
				u, v := *t, *t.viewSrc
				copy(v.name[:], name)
				u.viewSrc = &v
				return r.tap.look(&u, ask)
			}
		},
		"rows of 128 bytes": func(r *Runner) {
			r.tap.gate.look = func(t *tensor, ask bool) bool {
				u, v := *t, *t.viewSrc
				v.nb[1] *= 2
				u.viewSrc = &v
				return r.tap.look(&u, ask)
			}
		},
		"kq_mask": func(r *Runner) {
			r.tap.gate.look = func(t *tensor, ask bool) bool {
				u, v := *t, *t.viewSrc
				copy(v.name[:], "kq_mask")
				u.viewSrc = &v
				return r.tap.look(&u, ask)
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			r := opened(t, path, Options{})
			var log bytes.Buffer
			r.opt.Log = slog.New(slog.NewTextHandler(&log, nil))
			clear(r.tap.slots)
			r.rows.pools = nil
			change(r)
			_ = r.thread.do(func() error { r.openTap(); return nil })
			if line := log.String(); r.tapping || strings.Count(line, "\n") != 1 || !strings.Contains(line, reason) {
				t.Errorf("tapping %v, log: %q", r.tapping, line)
			}
			if r.rows.pools != nil || len(r.held) > 0 || len(r.free) != r.opt.Sequences {
				t.Errorf("%d pools, %d sequences held, %d free", len(r.rows.pools), len(r.held), len(r.free))
			}
		})
	}
}

// TestOneSequence: a runner of one sequence is tried with what it can have.
func TestOneSequence(t *testing.T) {
	r := tapped(t, llamaModel(t), Options{Sequences: 1})
	pass(t, r, "a", tokensOf(20, 1), 0, table(0, 2))
}

// TestCallbackSlots: a process has a fixed number of callbacks, which are never given back, so that all
// runners must share one.
func TestCallbackSlots(t *testing.T) {
	path := random(t, reftest.ModelOptions{Layers: 1, Context: 64})
	tapped(t, path, Options{}).Close()
	slot := func() uintptr { return purego.NewCallback(func() {}) }
	first, second := slot(), slot()
	for range 200 {
		r, err := Load("m", path, Options{BlockTokens: 16, KV: kvcache.F16, Sequences: 3})
		if err != nil {
			t.Fatal(err)
		}
		if !r.tapping {
			t.Fatal("rows go by states")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if third := slot(); third-second != second-first {
		t.Errorf("200 rounds took callbacks: %d bytes of them, one has %d", third-second, second-first)
	}
}
