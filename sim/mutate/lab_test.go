package main

import (
	"os"
	"path/filepath"
	"testing"
)

// tiny is a module with a package whose test looks at one of its guards alone.
var tiny = map[string]string{
	"go.mod": "module tiny\n\ngo 1.26\n",
	"p/p.go": `package p

func positive(n int) bool {
	if n > 0 {
		return true
	}
	if n == -99 {
		return false
	}
	return false
}
`,
	"p/p_test.go": `package p

import "testing"

func TestPositive(t *testing.T) {
	if !positive(1) || positive(0) {
		t.Error("wrong")
	}
}
`,
}

// A change is tried in the copy alone, each by itself, and what is not tested survives.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	for name, text := range tiny {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{pkg: "p"}
	mutants, err := find(filepath.Join(dir, "p"), "")
	if err != nil {
		t.Fatal(err)
	}
	broken := mutants[0]
	broken.text = "n +"
	mutants = append(mutants, broken)
	l := lab{dir: dir, pkg: o.pkg, witnesses: o.witnesses()}
	if err := l.sane(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []verdict{byTests, byTests, survived, survived, notViable} {
		m := mutants[i]
		if err := l.try(&m); err != nil {
			t.Fatal(err)
		}
		if m.verdict != want {
			t.Errorf("%s: %s, want %s", m.name(), m.verdict, want)
		}
	}
	if src, err := os.ReadFile(filepath.Join(dir, "p/p.go")); err != nil || string(src) != tiny["p/p.go"] {
		t.Errorf("the file is not as it was: %v\n%s", err, src)
	}
	if err := os.WriteFile(filepath.Join(dir, "p/p.go"), []byte("package p\n\nfunc positive(int) bool { return false }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.sane() == nil {
		t.Error("tests that fail without any change are taken")
	}
}

// A package in a folder of another has files of its own.
func TestNames(t *testing.T) {
	o := options{pkg: "agent/tcp", cases: 1, seeds: 1}
	if o.label() != "agent-tcp" || o.why() != "sim/mutate/survivors/agent-tcp.txt" {
		t.Errorf("%s, %s", o.label(), o.why())
	}
	var order []verdict
	for _, w := range o.witnesses() {
		order = append(order, w.verdict)
	}
	if len(order) != 3 || order[0] != byTests || order[1] != byCases || order[2] != bySeeds {
		t.Errorf("asked are %v", order)
	}
}
