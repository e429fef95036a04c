//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kvferry/runner/reference/reftest"
)

// rounded is a model that can be requantized: its rows are whole blocks of 32 weights.
func rounded(t testing.TB) string {
	needLibrary(t)
	return random(t, reftest.ModelOptions{Layers: 2, HeadDim: 32, Context: 256})
}

func requantize(t testing.TB, path string, threads int) (to string, made bool) {
	t.Helper()
	to, err := Requantize(path, "q4_0", Options{Threads: threads}, func(string) { made = true })
	if err != nil {
		t.Fatal(err)
	}
	return to, made
}

func hashOf(t testing.TB, path string) string {
	t.Helper()
	sum, err := fileHash(path)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestRequantize: the file lies beside the model, runs, and is made once. It is the same to the last
// bit wherever it is made, so that two machines that made their own can exchange KV.
//
// req: SERVE-05
func TestRequantize(t *testing.T) {
	path := rounded(t)
	to, made := requantize(t, path, 1)
	if want := strings.TrimSuffix(path, ".gguf") + ".requantized-q4_0.gguf"; to != want || !made {
		t.Errorf("%s, made: %t, want %s", to, made, want)
	}
	if again, made := requantize(t, path, 1); again != to || made {
		t.Errorf("again: %s, made: %t", again, made)
	}
	elsewhere := rounded(t)
	other, _ := requantize(t, elsewhere, 2)
	if a, b := hashOf(t, to), hashOf(t, other); a != b || a == hashOf(t, path) {
		t.Errorf("two machines made %s and %s of %s", a, b, hashOf(t, path))
	}
	small, err := os.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	large, err := os.Stat(path)
	if err != nil || small.Size() >= large.Size() {
		t.Errorf("%d bytes of %d, %v", small.Size(), large.Size(), err)
	}
	a, b := opened(t, to, Options{}), opened(t, other, Options{})
	if a.Model().Hash != b.Model().Hash {
		t.Errorf("identities %s and %s", a.Model().Hash, b.Model().Hash)
	}
	pass(t, a, "a", tokensOf(20, 1), 0, table(0, 2))
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if len(left) != 3 {
		t.Errorf("beside the model are %v", left)
	}
}

// TestRequantizeAgain: what was made of another source, by another version, only in part, or is
// not what its note speaks of is made anew.
func TestRequantizeAgain(t *testing.T) {
	path := rounded(t)
	to, _ := requantize(t, path, 1)
	want := hashOf(t, to)
	note := strings.TrimSuffix(to, ".gguf") + ".json"
	rewrite := func(change func(*origin)) {
		var o origin
		text, err := os.ReadFile(note)
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err != nil {
			t.Fatal(err)
		}
		change(&o)
		text, _ = json.Marshal(o)
		if err := os.WriteFile(note, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(){
		"another version": func() { rewrite(func(o *origin) { o.LlamaCpp = "v0.4.0" }) },
		"another source":  func() { rewrite(func(o *origin) { o.Source = strings.Repeat("0", 64) }) },
		"another type":    func() { rewrite(func(o *origin) { o.Type = "q8_0" }) },
		"no note":         func() { os.Remove(note) },
		"a broken note":   func() { os.WriteFile(note, []byte("{"), 0o600) },
		"cut off":         func() { os.Truncate(to, 100) },
		"no file":         func() { os.Remove(to) },
		"a process died": func() {
			os.Remove(to)
			os.WriteFile(to+".part", make([]byte, 1<<22), 0o600)
		},
	} {
		spoil()
		if _, made := requantize(t, path, 1); !made || hashOf(t, to) != want {
			t.Errorf("%s: made again: %t, %s want %s", name, made, hashOf(t, to), want)
		}
	}
	changed := reftest.Model(reftest.ModelOptions{Layers: 3, HeadDim: 32, Context: 256})
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, made := requantize(t, path, 1); !made || hashOf(t, to) == want {
		t.Errorf("of another model made: %t", made)
	}
}

// TestRequantizeAtOnce: of several that want the file at once, as up's engines do, one makes it and
// nobody sees it unfinished.
func TestRequantizeAtOnce(t *testing.T) {
	path := rounded(t)
	var made atomic.Int32
	sums := make([]string, 6)
	var wg sync.WaitGroup
	for i := range sums {
		wg.Go(func() {
			to, err := Requantize(path, "q4_0", Options{}, func(string) { made.Add(1) })
			if err != nil {
				t.Error(err)
				return
			}
			sums[i], err = fileHash(to)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, s := range sums {
		if s != sums[0] || s == "" {
			t.Errorf("%d has %q, 0 has %q", i, s, sums[0])
		}
	}
	if made.Load() != 1 {
		t.Errorf("it was made %d times", made.Load())
	}
}

// TestRequantizeRefusals: what cannot be made is refused with the folder or the file, and nothing
// is left beside the model.
func TestRequantizeRefusals(t *testing.T) {
	path := rounded(t)
	no := filepath.Join(t.TempDir(), "no.gguf")
	if err := os.WriteFile(no, []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := rounded(t) // a folder in the way stands for one that must not be written, which root may
	if err := os.Mkdir(strings.TrimSuffix(blocked, ".gguf")+".requantized-q4_0.gguf.part", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, kind, want string }{
		{path, "q2_k", `"q2_k": want q4_0`},
		{path + "x", "q4_0", "no such file"},
		{no, "q4_0", "could not make q4_0"},
		{blocked, "q4_0", "the folder " + filepath.Dir(blocked) + " must be writable"},
	} {
		_, err := Requantize(c.path, c.kind, Options{}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(no), "*")); len(left) != 1 {
		t.Errorf("beside what is no model are %v", left)
	}
}
