package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios plays the named races. A file's cluster command fixes the cluster of the runs
// that follow it; a run's input is the rest of a script, its output every event of the run
// until all requests have ended, and what each came to.
//
// req: PIPE-13 PIPE-16 PIPE-17 PIPE-18 PIPE-19 PIPE-32
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		cluster := ""
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				cluster = "cluster " + strings.ReplaceAll(d.Input, "\n", " ") + "\n"
				return "ok\n"
			case "run":
				return play(t, cluster+d.Input)
			}
			d.Fatalf(t, "no command %q", d.Cmd)
			return ""
		})
	})
}

func play(t *testing.T, script string) string {
	plan, err := Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	o := Run(plan, Options{Log: true})
	if o.Violation != nil {
		t.Errorf("%s\n%v\n%s", script, o.Violation, strings.Join(o.Log, "\n"))
	}
	return strings.Join(o.Log, "\n") + fmt.Sprintf("\nserved %d, failed %d, faults %d\n", o.Served, o.Failed, o.Faults)
}
