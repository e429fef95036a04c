package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// outcome is what a command did.
type outcome struct {
	stdout, stderr string
	err            error
}

func run(cmd *cobra.Command, args ...string) outcome {
	var out, errs strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return outcome{out.String(), errs.String(), err}
}

// file writes a configuration file.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kvferry.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const pipelinedYAML = `
context_servers:
  num_instances: 2
  cache_transceiver_config: {enable_pipelined_transfer: true}
`

// What check prints is a whole file: checked again, it is printed as it is, without a warning.
// req: PIPE-24
func TestCheckPrintsWhatItComesTo(t *testing.T) {
	path := file(t, pipelinedYAML)
	got := run(checkCommand(), path, "--chunk-tokens", "64")
	if got.err != nil {
		t.Fatal(got.err)
	}
	for _, want := range []string{"num_instances: 2\n", "max_num_tokens: 64\n", "transceiver_runtime: go\n", "kv_transfer_timeout_ms: 60000\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in\n%s", want, got.stdout)
		}
	}
	if want := "warning: " + path + ":4:3: context_servers.cache_transceiver_config.transceiver_runtime: auto: go was chosen\n"; !strings.HasPrefix(got.stderr, want) {
		t.Errorf("got %q, want %q", got.stderr, want)
	}
	again := run(checkCommand(), file(t, got.stdout))
	if again.err != nil || again.stderr != "" || again.stdout != got.stdout {
		t.Errorf("again: %v, %q\n%s", again.err, again.stderr, again.stdout)
	}
}

// check tells every fault with its place, or the flag that it came from, and fails.
// req: PIPE-21
// req: PIPE-22
// req: PIPE-23
// req: PIPE-24
func TestCheckTellsEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		args []string
		want []string
	}{
		"empty":         {"", nil, []string{"F:1:1: the file is empty"}},
		"unknown key":   {"schedule_stile: x\n", nil, []string{"F:1:1: schedule_stile: unknown key: did you mean schedule_style?"}},
		"wrong type":    {"port: eight\n", nil, []string{`F:1:7: port: "eight": want a whole number`}},
		"duplicate key": {"port: 1\nport: 2\n", nil, []string{"F:2:1: port: given twice, first in line 1"}},
		"a style that breaks a rule": {pipelinedYAML, []string{"--schedule-style", "context_first"}, []string{
			"--schedule-style: schedule_style: context_first: want generation_first with context_servers.cache_transceiver_config.enable_pipelined_transfer",
		}},
		"no chunks":           {pipelinedYAML, []string{"--enable-chunked-prefill=false"}, []string{"--enable-chunked-prefill: context_servers.enable_chunked_prefill: false: enable_pipelined_transfer needs true"}},
		"an impossible value": {"{}", []string{"--prefill", "0"}, []string{"--prefill: context_servers.num_instances: 0: want at least 1"}},
		"many": {"port: -1\nmodel: 7\n", []string{"--kv-blocks=-1", "--kv-dtype=f64"}, []string{
			"F:1:7: port: -1: want at least 0",
			"F:2:8: model: 7: want text",
			`--kv-dtype: context_servers.kv_cache_config.dtype: "f64": want f16, f32 or q8_0`,
			"--kv-blocks: context_servers.kv_cache_config.blocks: -1: want at least 0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, c.text)
			got := run(checkCommand(), append([]string{path}, c.args...)...)
			if got.err == nil || got.stdout != "" {
				t.Fatalf("it is accepted: %s", got.stdout)
			}
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("got %q", lines)
			}
			for i, want := range c.want {
				if want = strings.Replace(want, "F:", path+":", 1); !strings.HasPrefix(lines[i], want) {
					t.Errorf("got  %s\nwant %s", lines[i], want)
				}
			}
		})
	}
	if got := run(checkCommand(), filepath.Join(t.TempDir(), "none.yml")); got.err == nil || !strings.Contains(got.err.Error(), "none.yml") {
		t.Errorf("a file that is not there: %v", got.err)
	}
}
