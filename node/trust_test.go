package node_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"kvferry/agent/certs/certstest"
	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// Engines that know each other by token and certificates, and sum what they send, answer as one
// engine does, pushed and pulled.
//
// req: SERVE-02
func TestModesAnswerAlikeEncrypted(t *testing.T) {
	files := certstest.New(t).Issue(t, t.TempDir())
	for _, style := range []string{"generation_first", "context_first"} {
		t.Run(style, func(t *testing.T) {
			cfg := mode{engines: 1, pipelined: style == "generation_first", chunk: 48, dtype: "f16"}.config()
			cfg.Model, cfg.TrustNetwork, cfg.Token = windowed(t), false, "the-token"
			cfg.Agent.CertFile, cfg.Agent.KeyFile, cfg.Agent.CAFile = files.Cert, files.Key, files.CA
			cfg.Agent.Checksum, cfg.Agent.Connections = true, 3
			c := e2etest.Start(t, e2etest.Options{Engine: cfg, OnRouter: func(r *node.RouterConfig) {
				r.ScheduleStyle, r.Token = style, cfg.Token
			}})
			askAll(t, c, cfg, mixed())
		})
	}
}

// An engine that is told of files which are no certificates does not start without them.
func TestCertificatesMustBeThere(t *testing.T) {
	cfg := e2etest.Config()
	cfg.Role, cfg.Model = engine.Prefill, windowed(t)
	cfg.Agent.CertFile, cfg.Agent.KeyFile, cfg.Agent.CAFile = "none.crt", "none.key", "none.ca"
	if e, err := node.StartEngine(cfg); err == nil || !strings.Contains(err.Error(), "cache_transceiver_config.tls") {
		if err == nil {
			e.Stop(t.Context())
		}
		t.Error(err)
	}
	cfg.Agent.KeyFile = node.NoFile
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "key_file") {
		t.Error(err)
	}
}

// said keeps what an engine logs.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// An engine that other hosts can reach, without a token or certificates, says so once; on loopback,
// or with what tells strangers from peers, it says nothing.
func TestOpenEngineWarnsOnce(t *testing.T) {
	files := certstest.New(t).Issue(t, t.TempDir())
	for name, c := range map[string]struct {
		listen, agent, token string
		tls                  bool
		warns                int
		says                 int // addresses
	}{
		"loopback":              {"127.0.0.1:0", "[::1]:0", "", false, 0, 0},
		"both open":             {"0.0.0.0:0", "0.0.0.0:0", "", false, 1, 2},
		"the agent open":        {"127.0.0.1:0", "0.0.0.0:0", "", false, 1, 1},
		"HTTP open":             {"0.0.0.0:0", "127.0.0.1:0", "", false, 1, 1},
		"open with a token":     {"0.0.0.0:0", "0.0.0.0:0", "t", false, 0, 0},
		"the agent's TLS":       {"127.0.0.1:0", "0.0.0.0:0", "", true, 0, 0},
		"TLS does nothing here": {"0.0.0.0:0", "0.0.0.0:0", "", true, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log said
			cfg := e2etest.Config()
			cfg.Role, cfg.Model, cfg.Token = engine.Decode, windowed(t), c.token
			cfg.Listen, cfg.AgentListen, cfg.Log = c.listen, c.agent, slog.New(slog.NewTextHandler(&log, nil))
			if c.tls {
				cfg.Agent.CertFile, cfg.Agent.KeyFile, cfg.Agent.CAFile = files.Cert, files.Key, files.CA
			}
			e2etest.StartEngine(t, cfg)
			warned := 0
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, "other hosts can reach this engine") {
					continue
				}
				warned++
				if n := strings.Count(line, "[::]:") + strings.Count(line, "0.0.0.0:"); n != c.says {
					t.Errorf("%s names %d addresses", line, n)
				}
			}
			if warned != c.warns {
				t.Errorf("warned %d times: %s", warned, log.String())
			}
		})
	}
}
