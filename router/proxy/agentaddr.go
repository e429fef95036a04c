package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// agentAddr is where peers find an engine's transfer agent. An engine that listens on all its
// addresses cannot say which one others reach it by, but the router reaches it by one: that
// one then goes with the agent's port.
func agentAddr(agent, engineURL string) (string, error) {
	host, port, err := net.SplitHostPort(agent)
	if err != nil || port == "" || port == "0" {
		return "", fmt.Errorf("reports agent address %q: want host:port", agent)
	}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return agent, nil
	}
	u, err := url.Parse(engineURL)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
