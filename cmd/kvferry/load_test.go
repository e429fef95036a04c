package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestFiveHundredMixed loads two prefill and two decode engines with 500 mixed requests, 16 at
// once, with checksums and without: every answer is the aggregated engine's, and afterwards
// nothing is held.
//
// req: PIPE-28
// req: PIPE-33
// case: 09
func TestFiveHundredMixed(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand requests")
	}
	whole := launch(t, "serve", "--listen=127.0.0.1:0").ready(t)
	for _, checksum := range []string{"true", "false"} {
		t.Run("checksum "+checksum, func(t *testing.T) {
			c := up(t, "--prefill=2", "--decode=2", "--chunk-tokens=40", "--kv-checksum="+checksum)
			out, err := exec.Command(binary, "bench", "serve", "--url="+c.URL, "--check="+whole,
				"--requests=500", "--concurrency=16", "--prompt-tokens=4:100", "--output-tokens=1:12").CombinedOutput()
			t.Logf("%s", out)
			if err != nil || !strings.Contains(string(out), "checked: 500 right, 0 wrong, 0 not checked") {
				t.Fatalf("not every answer is right: %v", err)
			}
			c.awaitIdle(t)
		})
	}
}
