package node

import (
	"fmt"
	"net"

	"kvferry/agent"
	"kvferry/agent/auth"
	"kvferry/agent/certs"
	"kvferry/agent/choose"
	"kvferry/agent/nixl"
	"kvferry/agent/shm"
	"kvferry/agent/tcp"
	"kvferry/config"
)

// openAgent makes the agent that carries KV: TCP, which reaches every peer, and before it what is
// faster where it reaches. An engine that was given no token, and does not trust the network either,
// takes one that nobody else has: it has no peers.
func openAgent(cfg EngineConfig) (agent.Agent, error) {
	base, err := tcpOptions(cfg)
	if err != nil {
		return nil, err
	}
	o := choose.Options{Base: choose.Named{Name: config.TCPBackend, Agent: tcp.New(base)}, Log: cfg.Log}
	switch cfg.Agent.Backend {
	case config.SHMBackend:
		a, err := shm.New(shm.Options{Log: cfg.Log, Secret: base.Secret})
		if err != nil {
			cfg.Log.Warn("KV goes by TCP, also between processes of this host", "err", err)
			break
		}
		o.Fast = append(o.Fast, choose.Named{Name: config.SHMBackend, Agent: a})
	case config.NIXLBackend:
		a, err := openNIXL(cfg, base)
		if err != nil {
			return nil, fmt.Errorf("cache_transceiver_config.backend NIXL: %w", err)
		}
		o.Fast = append(o.Fast, choose.Named{Name: config.NIXLBackend, Agent: a})
	}
	cfg.Log.Info("what carries KV", "backend", cfg.Agent.Backend)
	return choose.New(o), nil
}

func tcpOptions(cfg EngineConfig) (tcp.Options, error) {
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
			return o, fmt.Errorf("cache_transceiver_config.tls: %w", err)
		}
		o.TLS = store
	}
	return o, nil
}

// openNIXL makes NIXL's agent, with a TCP agent of its own for what NIXL does not carry, at a free
// port of the same host.
func openNIXL(cfg EngineConfig, control tcp.Options) (agent.Agent, error) {
	host, _, err := net.SplitHostPort(cfg.AgentListen)
	if err != nil {
		return nil, err
	}
	control.Listen, control.Bulk = net.JoinHostPort(host, "0"), 1
	o := nixl.Options{Control: tcp.New(control), Backend: cfg.Agent.NIXL.Backend, Log: cfg.Log}
	if cfg.Agent.NIXL.Library != Auto {
		o.Library = cfg.Agent.NIXL.Library
	}
	if o.Params, err = config.NIXLParams(cfg.Agent.NIXL.Params); err != nil {
		return nil, err
	}
	return nixl.New(o)
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
