package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadModel: a model that cannot be loaded is an error of the start, whatever is wrong with
// it, and nothing is left open.
func TestBadModel(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.gguf")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{
		junk:                     "junk",
		junk + "x":               "no such file",
		"emulated:":              "want one of",
		"emulated:gpt-5":         "want one of",
		"emulated:test@4xtoytoy": "device",
	} {
		cfg := DefaultEngineConfig()
		cfg.TrustNetwork = true
		cfg.Model = model
		e, err := StartEngine(cfg)
		if e != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", model, err)
		}
	}
}
