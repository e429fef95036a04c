//go:build linux && amd64 && llamacpp

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvferry/node"
)

// startUp builds kvferry with llama.cpp and runs `kvferry up` until the test ends. It gives the
// router's URL and the process's number.
func startUp(t *testing.T, args ...string) (url string, pid int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kvferry")
	if out, err := exec.Command("go", "build", "-tags", "llamacpp", "-o", path, "kvferry/cmd/kvferry").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(path, append([]string{"up", "--listen=127.0.0.1:0", "--log-level=error", "--drain-timeout=5s"}, args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), node.ReadyPrefix); ok {
			return url, cmd.Process.Pid
		}
	}
	t.Fatalf("kvferry up %v ended before it was ready", args)
	return "", 0
}

// sample is what there was at a time, in seconds from the beginning of 1970.
type sample struct {
	At        int64           `json:"at"`
	Processes map[string]proc `json:"processes"`
	Held      held            `json:"held"`
}

// proc is a process: its resident memory in bytes, open files, and goroutines where it tells. Own is
// the memory that it has alone; Shared is that of pools, its own and those of peers that it maps, which
// come and go with the peers.
type proc struct {
	PID        int `json:"pid"`
	RSS        int `json:"rss"`
	Own        int `json:"own"`
	Shared     int `json:"shared"`
	Files      int `json:"files"`
	Goroutines int `json:"goroutines"`
}

func mb(bytes int) float64 { return float64(bytes) / 1e6 }

// held is what all engines and the router hold together. At rest every block is free, or is of a
// turn that is kept for a while.
type held struct {
	Blocks   int `json:"blocks"`
	Free     int `json:"free"`
	Requests int `json:"requests"`
	Sessions int `json:"sessions"`
	Leases   int `json:"leases"`
	Turns    int `json:"turns"`
	Parked   int `json:"parked"`
}

// cluster is what the router tells at /debug/state.
type cluster struct {
	Requests struct{ Running int }
	Engines  []member
}

type member struct {
	Role, URL string
	PID       int
	Ready     bool
	State     *node.State
}

// named are the engines by role and number.
func (c cluster) named() map[string]member {
	out, count := map[string]member{}, map[string]int{}
	for _, e := range c.Engines {
		out[fmt.Sprintf("%s-%d", e.Role, count[e.Role])] = e
		count[e.Role]++
	}
	return out
}

func (s *soak) state(ctx context.Context) (c cluster, err error) {
	b, err := get(ctx, s.url+"/debug/state")
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	return c, err
}

// look takes a sample. It fails while an engine is not there.
func (s *soak) look(ctx context.Context) (sample, error) {
	c, err := s.state(ctx)
	if err != nil {
		return sample{}, err
	}
	out := sample{At: time.Now().Unix(), Processes: map[string]proc{}}
	out.Held.Requests = c.Requests.Running
	for name, e := range c.named() {
		if !e.Ready || e.State == nil {
			return out, fmt.Errorf("%s is not ready", name)
		}
		h, st := &out.Held, e.State
		h.Blocks, h.Free = h.Blocks+st.Pool.Total, h.Free+st.Pool.Free
		h.Requests += st.Requests.Running + st.Requests.Waiting
		h.Sessions += st.Sessions.Send + st.Sessions.Receive + st.Sessions.Offer + st.Sessions.Pull
		h.Leases, h.Turns, h.Parked = h.Leases+st.Leases, h.Turns+st.Turns.Count, h.Parked+st.Parked
		if out.Processes[name], err = processOf(ctx, e.PID, e.URL); err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
	}
	router, err := childOf(s.up, "router")
	if err == nil {
		out.Processes["router"], err = processOf(ctx, router, "")
	}
	if err == nil {
		out.Processes["up"], err = processOf(ctx, s.up, "")
	}
	return out, err
}

// processOf looks at a process, and asks it for its goroutines if it is an engine: a router does not
// tell.
func processOf(ctx context.Context, pid int, url string) (proc, error) {
	p := proc{PID: pid}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return p, err
	}
	for name, into := range map[string]*int{"VmRSS:": &p.RSS, "RssAnon:": &p.Own, "RssShmem:": &p.Shared} {
		kib, err := number(status, name)
		if err != nil {
			return p, err
		}
		*into = 1024 * kib
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return p, err
	}
	p.Files = len(files)
	if url == "" {
		return p, nil
	}
	metrics, err := get(ctx, url+"/metrics")
	if err == nil {
		p.Goroutines, err = number(metrics, "\ngo_goroutines ")
	}
	return p, err
}

// number reads the one that is behind a name.
func number(text []byte, name string) (int, error) {
	_, rest, ok := bytes.Cut(text, []byte(name))
	n := 0
	if _, err := fmt.Sscan(string(rest[:min(len(rest), 40)]), &n); !ok || err != nil {
		return 0, fmt.Errorf("no %q", strings.TrimSpace(name))
	}
	return n, nil
}

// childOf finds a child of a process by its command.
func childOf(parent int, command string) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var pid, of int
		var name, state string
		if n, _ := fmt.Sscanf(string(stat), "%d %s %s %d", &pid, &name, &state, &of); n < 4 || of != parent {
			continue
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if f := strings.Split(string(args), "\x00"); err == nil && len(f) > 1 && f[1] == command {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("process %d has no child %s", parent, command)
}

func get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// modelName is a file's name in the API.
func modelName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}
