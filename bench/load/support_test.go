package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// serveFake starts a server that has one model and answers completions and chats by h.
func serveFake(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"fake"}]}`)
	})
	mux.HandleFunc("/v1/", h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// asked is what a fake server is asked.
type asked struct {
	Model       string
	Prompt      json.RawMessage
	Messages    []struct{ Role, Content string }
	MaxTokens   int `json:"max_tokens"`
	Temperature float64
	Seed        *int64
	IgnoreEOS   bool `json:"ignore_eos"`
	Stream      bool
}

func read(r *http.Request) (a asked) {
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		panic(err)
	}
	return a
}

// tell answers with a text, in pieces of a byte or whole.
func tell(w http.ResponseWriter, a asked, text string) {
	if !a.Stream {
		fmt.Fprintf(w, `{"choices":[{"text":%q,"finish_reason":"length"}]}`, text)
		return
	}
	for _, c := range text {
		event(w, `{"choices":[{"text":%q,"finish_reason":null}]}`, string(c))
	}
	event(w, `{"choices":[{"text":"","finish_reason":"length"}]}`)
	event(w, `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":%d}}`, len(text))
	event(w, `[DONE]`)
}

func event(w http.ResponseWriter, format string, args ...any) {
	fmt.Fprintf(w, "data: "+format+"\n\n", args...)
	_ = http.NewResponseController(w).Flush()
}

func run(t *testing.T, o Options) *Report {
	t.Helper()
	rep, err := Run(t.Context(), t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// program builds kvferry once for all tests.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "kvferry")
	out, err := exec.Command("go", "build", "-o", path, "kvferry/cmd/kvferry").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var binaries string // the folder of what is built

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "kvferry-load"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(binaries)
	os.Exit(code)
}

const readyPrefix = "kvferry is ready: "

// start runs kvferry until the test ends, and gives its address.
func start(t *testing.T, args ...string) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(args, "--listen=127.0.0.1:0")...)
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
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), readyPrefix); ok {
			return url
		}
	}
	t.Fatalf("kvferry %v ended before it was ready", args)
	return ""
}

// await asks again and again until the condition holds.
func await(t *testing.T, limit time.Duration, what string, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
	}
}
