// Command mutate measures how well package transfer's guards are tested. It inverts or removes
// each of them in turn, in a copy of the module, runs the package's own tests and then the
// simulator on the copy, and writes down which changes nobody noticed.
//
//	go run ./sim/mutate
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// why holds the reasons for the survivors that are known, a line each:
// file ¦ condition ¦ change ¦ reason.
const why = "sim/mutate/survivors.txt"

func main() {
	var (
		pkg   = flag.String("package", "transfer", "the `folder` whose guards are changed")
		seeds = flag.Int("seeds", 1000, "how many seeds the simulator runs for each change that the tests do not notice")
		out   = flag.String("out", "docs/mutation-transfer.md", "where the table goes")
		only  = flag.String("only", "", "change the guards of this `file` alone, and write no table")
	)
	flag.Parse()
	if err := run(*pkg, *only, *out, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(pkg, only, out string, seeds int) error {
	mutants, err := find(pkg, only)
	if err != nil {
		return err
	}
	if len(mutants) == 0 {
		return fmt.Errorf("no guard in %s: is this the module's root?", pkg)
	}
	reasons, err := readReasons(why)
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
	lab := lab{dir: filepath.Join(dir, "m"), pkg: pkg, seeds: seeds}
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
	if only != "" {
		return nil
	}
	return os.WriteFile(out, []byte(table(mutants, reasons, pkg, seeds)), 0o644)
}
