// Command mutate measures how well a package's guards are tested. It inverts or removes each of
// them in turn, in a copy of the module, runs the package's own tests on the copy, and where
// those notice nothing the engines' random cases and the simulator, and writes down which changes
// nobody noticed.
//
//	go run ./sim/mutate transfer
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	pkg          string // the folder of the package
	only         string // one of its files, or all
	out          string
	cases, seeds int
}

func main() {
	var o options
	flag.IntVar(&o.cases, "cases", 400, "how many of the engines' random cases look at each change that the package's tests do not notice")
	flag.IntVar(&o.seeds, "seeds", 1000, "how many seeds the simulator runs for each change that is not noticed before")
	flag.StringVar(&o.out, "out", "", "where the table goes (default docs/mutation-PACKAGE.md)")
	flag.StringVar(&o.only, "only", "", "change the guards of this `file` alone, and write no table")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./sim/mutate [flags] PACKAGE, at the module's root")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	o.pkg = filepath.ToSlash(filepath.Clean(flag.Arg(0)))
	if o.out == "" {
		o.out = "docs/mutation-" + o.label() + ".md"
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// label is the package's folder as part of a file's name.
func (o options) label() string { return strings.ReplaceAll(o.pkg, "/", "-") }

// why is the file with the reasons for the survivors that are known, a line each:
// file ¦ condition ¦ change ¦ reason.
func (o options) why() string { return "sim/mutate/survivors/" + o.label() + ".txt" }

func run(o options) error {
	mutants, err := find(o.pkg, o.only)
	if err != nil {
		return err
	}
	if len(mutants) == 0 {
		return fmt.Errorf("no guard in %s: is this the module's root?", o.pkg)
	}
	reasons, err := readReasons(o.why())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(filepath.Join(dir, "m"), module{os.DirFS(".")}); err != nil {
		return err
	}
	lab := lab{dir: filepath.Join(dir, "m"), pkg: o.pkg, witnesses: o.witnesses()}
	if err := lab.sane(); err != nil {
		return err
	}
	began := time.Now()
	for i := range mutants {
		if err := lab.try(&mutants[i]); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d of %d after %v: %s: %s\n",
			i+1, len(mutants), time.Since(began).Round(time.Second), mutants[i].name(), mutants[i].verdict)
	}
	if o.only != "" {
		return nil
	}
	return os.WriteFile(o.out, []byte(o.table(mutants, reasons)), 0o644)
}
