package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// readReasons reads why a survivor is no loss, by file, condition and change.
func readReasons(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " ¦ ")
		if len(parts) != 4 {
			return nil, fmt.Errorf("%s:%d: want file ¦ condition ¦ change ¦ reason", path, i+1)
		}
		out[strings.Join(parts[:3], " ¦ ")] = parts[3]
	}
	return out, nil
}

func (m mutant) key() string { return m.file + " ¦ " + m.condition + " ¦ " + m.change }

// tally counts verdicts.
type tally map[verdict]int

func (t tally) caught() int { return t[byTests] + t[byCases] + t[bySeeds] }

func (t tally) row(b *strings.Builder, name string) {
	fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d |\n",
		name, t.caught()+t[survived], t[byTests], t[byCases], t[bySeeds], t[survived])
}

// table is what is written down.
func (o options) table(mutants []mutant, reasons map[string]string) string {
	files := []string{}
	count := map[string]tally{}
	total := tally{}
	for _, m := range mutants {
		if count[m.file] == nil {
			count[m.file] = tally{}
			files = append(files, m.file)
		}
		count[m.file][m.verdict]++
		total[m.verdict]++
	}
	slices.Sort(files)
	var b strings.Builder
	fmt.Fprintf(&b, "# Mutations of package %s\n\n", o.pkg)
	fmt.Fprintf(&b, "Written by `go run ./sim/mutate %s`. Each guard of the package (the condition of every `if`, every case\n", o.pkg)
	b.WriteString("of a `switch` without a value) is inverted, removed, and stripped of each operand of its `&&` and `||`, one\n")
	b.WriteString("change at a time. A change is caught if the package's own tests fail")
	if o.cases > 0 {
		fmt.Fprintf(&b, ", or else %d of the engines' random cases\n(`TestFerry`)", o.cases)
	}
	if o.seeds > 0 {
		fmt.Fprintf(&b, ", or else %d seeds of the simulator", o.seeds)
	}
	b.WriteString(".\n\n")
	all := total.caught() + total[survived]
	fmt.Fprintf(&b, "**%d of %d changes are caught: %.1f %%.** %d more do not compile.\n\n",
		total.caught(), all, 100*float64(total.caught())/float64(all), total[notViable])
	b.WriteString("| file | changes | by the tests | by the cases | by the seeds | survived |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, f := range files {
		count[f].row(&b, f)
	}
	total.row(&b, "all")
	b.WriteString("\n## Survivors\n\n| where | guard | change | why |\n| --- | --- | --- | --- |\n")
	for _, m := range mutants {
		if m.verdict == survived {
			fmt.Fprintf(&b, "| %s:%d | `%s` | %s | %s |\n", m.file, m.line, cell(m.condition), cell(m.change), cell(reasons[m.key()]))
		}
	}
	return b.String()
}

// cell is text that a table can hold.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
