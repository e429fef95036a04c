package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvferry/node"
)

// program builds kvferry.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	path := filepath.Join(t.TempDir(), "kvferry")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// start starts a process and gives the address in its ready line. When the test ends it is told
// to stop, and must end well.
func start(t *testing.T, path string, args ...string) (addr string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), node.ReadyPrefix)
	if !ok {
		t.Fatalf("%s says %q, %v", args[0], line, err)
	}
	return url
}

// answer completes a prompt of several chunks.
func answer(t *testing.T, url string) (body, timing string) {
	t.Helper()
	prompt := strings.Repeat("the sea was calm and ", 12)
	resp, err := http.Post(url+"/v1/completions", "application/json",
		strings.NewReader(fmt.Sprintf(`{"model":"kvferry-tiny","prompt":%q,"max_tokens":8,"temperature":0}`, prompt)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", resp.Status, text, err)
	}
	_, choices, _ := strings.Cut(string(text), `"choices"`)
	choices, _, _ = strings.Cut(choices, `"usage"`)
	return choices, resp.Trailer.Get("Server-Timing")
}

const engines = `
context_servers:
  max_num_tokens: 16
  kv_cache_config: {tokens_per_block: 8}
  cache_transceiver_config: {enable_pipelined_transfer: true, transceiver_runtime: go}
generation_servers:
  kv_cache_config: {tokens_per_block: 8}
`

// Processes that are each started with a file do together what `up` does with it, and what one
// process does without.
// req: PIPE-24
func TestProcessesFromAFile(t *testing.T) {
	path := program(t)
	want, _ := answer(t, start(t, path, "serve", "--listen=127.0.0.1:0"))
	t.Run("up", func(t *testing.T) {
		got, timing := answer(t, start(t, path, "up", "--config", file(t, "port: 0\n"+engines)))
		if got != want || !strings.Contains(timing, "transfer_hidden") {
			t.Errorf("got %s, %s\nwant %s", got, timing, want)
		}
	})
	t.Run("one by one", func(t *testing.T) {
		own := file(t, engines)
		prefill := start(t, path, "prefill", "--config", own)
		decode := start(t, path, "decode", "--config", own)
		all := strings.Replace(engines, "generation_servers:\n", fmt.Sprintf("  urls: ['%s']\ngeneration_servers:\n  urls: ['%s']\n", prefill, decode), 1)
		router := start(t, path, "router", "--config", file(t, all), "--listen=127.0.0.1:0")
		if err := node.AwaitReady(t.Context(), strings.TrimPrefix(router, "http://")); err != nil {
			t.Fatal(err)
		}
		if got, _ := answer(t, router); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
	t.Run("check", func(t *testing.T) {
		for text, want := range map[string]int{engines: 0, "port: eight\n": 1, "": 1} {
			cmd := exec.Command(path, "check", file(t, text))
			err := cmd.Run()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("%q: exit status %d, want %d", text, got, want)
			}
		}
	})
}
