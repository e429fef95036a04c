//go:build linux && amd64 && llamacpp

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai/httpapi"
	"kvferry/runner/llamacpp"
)

// realModel names the file of SmolLM2-135M-Instruct.
const realModel = "KVFERRY_LLAMA_MODEL"

// needReal is that file. Without it or llama.cpp the test is skipped, except in CI.
func needReal(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a real model is slow")
	}
	for _, v := range []string{llamacpp.Variable, realModel} {
		if os.Getenv(v) != "" {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not set", v)
		}
		t.Skipf("%s is not set", v)
	}
	return os.Getenv(realModel)
}

// llamaBinary is the program with llama.cpp built in, made when it is first asked for.
var llamaBinary = sync.OnceValues(func() (string, error) {
	path := binary + "-llamacpp"
	args := []string{"build", "-tags", "llamacpp", "-o", path}
	if e2etest.Race {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// slowEngine is set where the test binary is an engine behind a slow link: to a slowLink.
const slowEngine = "KVFERRY_TEST_SLOW_LLAMA"

// slowLink is an engine with llama.cpp, and how many bytes a second its transfers share.
type slowLink struct {
	Role                engine.Role
	Model               string
	Listen, AgentListen string
	Rate                int64
}

// slowConfig is what such engines, and the aggregated one that they must equal, have in common:
// one sequence of llama.cpp's, so that one that is left behind leaves none for the next request,
// and chunks for which llama.cpp computes a prompt's last token alike with others and alone.
func slowConfig(model string, role engine.Role) node.EngineConfig {
	cfg := e2etest.Config()
	cfg.Role, cfg.Model, cfg.Runner, cfg.Llama.Context = role, model, node.LlamaRunner, 512
	cfg.MaxSeqs, cfg.ChunkTokens, cfg.TurnTTL = 1, 48, 0
	cfg.LoadFailurePolicy = node.FailPolicy
	return cfg
}

// TestLlamaSlowEngine is no test where it is not told so, but such an engine's process.
func TestLlamaSlowEngine(t *testing.T) {
	orders := os.Getenv(slowEngine)
	if orders == "" {
		t.Skip("this is a process of other tests")
	}
	var link slowLink
	if err := json.Unmarshal([]byte(orders), &link); err != nil {
		t.Fatal(err)
	}
	cfg := slowConfig(link.Model, link.Role)
	cfg.Listen, cfg.AgentListen = link.Listen, link.AgentListen
	cfg.Pipelined = link.Role == engine.Prefill
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg.WrapAgent = func(a agent.Agent) agent.Agent { return fault.New(a, fault.Options{Rate: link.Rate}) }
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	e, err := node.StartEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%shttp://%s\n", node.ReadyPrefix, e.Addr())
	<-ctx.Done()
	e.Stop(ctx)
}

// slowPart is such a process, and how to start it again.
type slowPart struct {
	*part
	link slowLink
}

func startSlow(t *testing.T, link slowLink) *slowPart {
	t.Helper()
	b, err := json.Marshal(link)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLlamaSlowEngine$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), slowEngine+"="+string(b))
	p := begin(t, cmd)
	c := e2etest.NewClient(p.ready(t), modelOf(link.Model))
	c.Header = http.Header{httpapi.HeaderToken: {os.Getenv(node.TokenVariable)}}
	t.Cleanup(c.Close)
	return &slowPart{&part{process: p, Client: c}, link}
}

// again starts the engine at its addresses once it has been killed.
func (p *slowPart) again(t *testing.T, agentListen string) *slowPart {
	t.Helper()
	link := p.link
	link.Listen, link.AgentListen = strings.TrimPrefix(p.URL, "http://"), agentListen
	return startSlow(t, link)
}

// modelOf is a model file's name in the API.
func modelOf(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }
