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

// lab tries mutants in a copy of the module.
type lab struct {
	dir   string
	pkg   string
	seeds int
}

// sane makes sure that the copy passes as it is.
func (l lab) sane() error {
	if out, ok := l.tests(); !ok {
		return fmt.Errorf("the tests fail without any change:\n%s", out)
	}
	if out, ok := l.simulator(); !ok {
		return fmt.Errorf("the seeds fail without any change:\n%s", out)
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
	return os.WriteFile(path, src, 0o644)
}

func (l lab) judge() verdict {
	if _, ok := l.goes("build", "./"+l.pkg); !ok {
		return notViable
	}
	if _, ok := l.tests(); !ok {
		return byTests
	}
	if _, ok := l.simulator(); !ok {
		return bySeeds
	}
	return survived
}

func (l lab) tests() (string, bool) {
	return l.goes("test", "-timeout=60s", "./"+l.pkg)
}

func (l lab) simulator() (string, bool) {
	return l.goes("test", "-timeout=300s", "-run=^TestSeeds$", "./sim", "-seeds="+strconv.Itoa(l.seeds))
}

func (l lab) goes(args ...string) (string, bool) {
	cmd := exec.Command("go", args...)
	cmd.Dir = l.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err == nil
}
