package node

import (
	"fmt"
	"net"

	"kvferry/agent"
	"kvferry/agent/auth"
	"kvferry/agent/certs"
	"kvferry/agent/tcp"
)

// openAgent makes the agent that carries KV. An engine that was given no token, and does not trust
// the network either, takes one that nobody else has: it has no peers.
func openAgent(cfg EngineConfig) (agent.Agent, error) {
	token := cfg.Token
	if token == "" && !cfg.TrustNetwork {
		token = NewToken()
	}
	o := tcp.Options{
		Listen: cfg.AgentListen, Log: cfg.Log, Secret: auth.New(token),
		Bulk: cfg.Agent.Connections, Checksum: cfg.Agent.Checksum,
	}
	if cfg.Agent.encrypts() {
		store, err := certs.Open(certs.Files{Cert: cfg.Agent.CertFile, Key: cfg.Agent.KeyFile, CA: cfg.Agent.CAFile}, cfg.Log)
		if err != nil {
			return nil, fmt.Errorf("cache_transceiver_config.tls: %w", err)
		}
		o.TLS = store
	}
	return tcp.New(o), nil
}

// encrypts says whether engines speak TLS with each other.
func (c AgentConfig) encrypts() bool { return c.CertFile != NoFile }

// warnIfOpen says once that others than this host's can reach the engine, where nothing tells
// them from those who may.
func (e *Engine) warnIfOpen() {
	var open []string
	if e.cfg.Token == "" && beyond(e.Addr()) {
		open = append(open, e.Addr())
	}
	if e.agent != nil && e.cfg.Token == "" && !e.cfg.Agent.encrypts() && beyond(e.agent.Addr()) {
		open = append(open, e.agent.Addr())
	}
	if len(open) > 0 {
		e.cfg.Log.Warn("other hosts can reach this engine, and it has neither a token nor certificates to know them by",
			"at", open, "want", "--token, "+TokenVariable+" or --agent-tls-cert, -key and -ca")
	}
}

// beyond says whether an address that was listened on is more than this host's own.
func beyond(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false // of an agent whose addresses are no hosts
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}
