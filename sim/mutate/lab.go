package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// verdict is what became of a mutant.
type verdict string

// The verdicts. A mutant that does not compile says nothing.
const (
	byTests   verdict = "caught by the tests"
	byCases   verdict = "caught by the cases"
	bySeeds   verdict = "caught by the seeds"
	survived  verdict = "survived"
	notViable verdict = "does not compile"
)

// module is the files of a module that a build needs.
type module struct{ fs.FS }

// ReadDir leaves out what begins with a dot.
func (m module) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(m.FS, name)
	var out []fs.DirEntry
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") && (e.IsDir() || e.Type().IsRegular()) {
			out = append(out, e)
		}
	}
	return out, err
}

// witness is a run of tests that may notice a change.
type witness struct {
	verdict verdict
	args    []string // of go
}

// witnesses are asked in this order, until one notices.
func (o options) witnesses() []witness {
	out := []witness{{byTests, []string{"test", "-failfast", "-timeout=60s", "./" + o.pkg}}}
	if o.cases > 0 {
		out = append(out, witness{byCases, []string{
			"test", "-timeout=300s", "-run=^TestFerry$", "./engine", "-ferry.cases=" + strconv.Itoa(o.cases),
		}})
	}
	if o.seeds > 0 {
		out = append(out, witness{bySeeds, []string{
			"test", "-timeout=300s", "-run=^TestSeeds$", "./sim", "-seeds=" + strconv.Itoa(o.seeds),
		}})
	}
	return out
}

// lab tries mutants in a copy of the module.
type lab struct {
	dir       string
	pkg       string
	witnesses []witness
}

// sane makes sure that nobody notices anything in the copy as it is.
func (l lab) sane() error {
	for _, w := range l.witnesses {
		if out, ok := l.goes(w.args...); !ok {
			return fmt.Errorf("without any change: %s:\n%s", w.verdict, out)
		}
	}
	return nil
}

// try finds out who notices a mutant.
func (l lab) try(m *mutant) error {
	path := filepath.Join(l.dir, l.pkg, m.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed := append(append(append([]byte(nil), src[:m.from]...), m.text...), src[m.to:]...)
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		return err
	}
	m.verdict = l.judge()
	// The inputs that failed are kept for the next run, which is to find its own.
	if err := os.RemoveAll(filepath.Join(l.dir, l.pkg, "testdata", "rapid")); err != nil {
		return err
	}
	return os.WriteFile(path, src, 0o644)
}

func (l lab) judge() verdict {
	if _, ok := l.goes("build", "./"+l.pkg); !ok {
		return notViable
	}
	for _, w := range l.witnesses {
		if _, ok := l.goes(w.args...); !ok {
			return w.verdict
		}
	}
	return survived
}

func (l lab) goes(args ...string) (string, bool) {
	cmd := exec.Command("go", args...)
	cmd.Dir = l.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err == nil
}
