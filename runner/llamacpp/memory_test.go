//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"kvferry/runner"
	"kvferry/runner/reference/reftest"
)

// resident is this process's memory, now or, by the name VmHWM, at most since resetPeak.
func resident(t *testing.T, field string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// resetPeak makes the peak what is resident now.
func resetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skipf("the peak of memory cannot be reset here: %v", err)
	}
}

// TestImportMemory: to enter KV into llama.cpp takes, beside where it comes from and where it goes,
// less than 1.2 times its size, in this process's heap and in llama.cpp's.
//
// case: 15
func TestImportMemory(t *testing.T) {
	const tokens = 4000
	path := random(t, reftest.ModelOptions{Layers: 8, KVHeads: 4, HeadDim: 64, Context: tokens + 96})
	r := opened(t, path, Options{})
	tables := table(0, r.Layout().TotalBlocks(tokens+1))
	enter := func(name string) {
		t.Helper()
		// The blocks hold zeros: what is in them changes nothing of what it takes to move them.
		if err := r.Forward([]runner.Work{{Sequence: name, Tokens: []int32{5}, Start: tokens, Tables: tables}}); err != nil {
			t.Fatal(err)
		}
	}
	enter("first") // llama.cpp's cells are resident from here on
	r.state = nil
	debug.FreeOSMemory()
	size := r.Layout().BlockBytes(0) / r.Layout().BlockTokens * tokens
	resetPeak(t)
	before, heap := resident(t, "VmRSS"), allocated()
	enter("second")
	peak, grown := resident(t, "VmHWM")-before, allocated()-heap
	t.Logf("%d bytes of KV; %d more were resident, and %d allocated in Go: %.2f and %.2f times as much", size, peak, grown, float64(peak)/float64(size), float64(grown)/float64(size))
	if size < 16<<20 {
		t.Fatalf("%d bytes are too few to tell", size)
	}
	if most := size + size/5; peak > most || grown > most {
		t.Errorf("%d bytes resident and %d allocated, want at most %d", peak, grown, most)
	}
}

// allocated is all that was ever allocated on the heap.
func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}
