package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = `package p

func f(a, b int) int {
	if a > 0 && b > 0 {
		return 1
	}
	if a < 0 {
		b++
	}
	switch {
	case a == b:
		return b
	}
	switch a {
	case 1:
	}
	return 0
}
`

func sampleMutants(t *testing.T) []mutant {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": sample, "a_test.go": sample, "phase.go": sample} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mutants, err := find(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return mutants
}

// Every guard is inverted and removed, and every operand of one removed, in the code alone.
func TestFind(t *testing.T) {
	var got []string
	for _, m := range sampleMutants(t) {
		got = append(got, sample[m.from:m.to]+" -> "+m.text)
	}
	want := []string{
		"a > 0 && b > 0 -> !(a > 0 && b > 0)",
		"a > 0 && b > 0 -> (false && (a > 0 && b > 0))",
		"a > 0 -> (true || (a > 0))",
		"b > 0 -> (true || (b > 0))",
		"a < 0 -> !(a < 0)",
		"a < 0 -> (true || (a < 0))",
		"a == b -> !(a == b)",
		"a == b -> (false && (a == b))",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTable(t *testing.T) {
	mutants := sampleMutants(t)
	for i := range mutants {
		mutants[i].verdict = byTests
	}
	mutants[0].verdict, mutants[1].verdict, mutants[2].verdict, mutants[3].verdict = notViable, bySeeds, survived, byCases
	got := options{pkg: "p"}.table(mutants, map[string]string{mutants[2].key(): "because a || b"})
	for _, want := range []string{
		"6 of 7 changes are caught: 85.7 %",
		"1 more do not compile",
		"| a.go | 7 | 4 | 1 | 1 | 1 |",
		"| a.go:4 | `a > 0 && b > 0` | without `a > 0` | because a \\|\\| b |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestReasons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "why")
	if got, err := readReasons(path); got != nil || err != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("# of a.go\na.go ¦ x > 0 ¦ inverted ¦ it is so\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readReasons(path)
	if err != nil || got["a.go ¦ x > 0 ¦ inverted"] != "it is so" {
		t.Errorf("%v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("what\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readReasons(path); err == nil {
		t.Error("a line without reason is taken")
	}
}
