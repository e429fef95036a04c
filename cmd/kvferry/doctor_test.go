package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"kvferry/doctor"
)

// doctor says what it found as text or JSON, and fails where what was asked for cannot be.
func TestDoctor(t *testing.T) {
	model := filepath.Join("..", "..", "models", "kvferry-tiny.gguf")
	got := run(doctorCommand(), "--model", model)
	if got.err != nil || !strings.Contains(got.stdout, "auto takes reference") || !strings.Contains(got.stdout, "127.0.0.1:8000") {
		t.Errorf("%v\n%s", got.err, got.stdout)
	}
	got = run(doctorCommand(), "--json", "--model", model+"x")
	var r doctor.Report
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatal(err)
	}
	if got.err == nil || got.err.Error() != "checks that failed: 1" || r.Failed() != 1 {
		t.Errorf("%v, %d failed", got.err, r.Failed())
	}
	if got := run(doctorCommand(), "--llama-lib", t.TempDir()); got.err == nil {
		t.Error("it does not fail without the libraries that were named")
	}
}
