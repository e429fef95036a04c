package proxy

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"kvferry/router"
)

// Times of the router.
const (
	// dialTimeout is how long a connection to an engine may take to open. There is no limit
	// on a request as a whole: an answer takes as long as it takes.
	dialTimeout = 2 * time.Second
	// pollTimeout is how long an engine may take to say whether it is ready. A dead one is
	// found out by its connection; this is for one that hangs, and a busy machine may take long.
	pollTimeout = 5 * time.Second
	// stateTimeout is how long an engine may take to describe itself for /debug/state.
	stateTimeout = time.Second
	// defaultPollInterval is between two polls of one engine.
	defaultPollInterval = 500 * time.Millisecond
)

// Config is what the router must be told.
type Config struct {
	// Config is how requests are run.
	router.Config
	// Prefill and Decode are the engines' addresses, http://host:port or host:port, at
	// least one of each and none twice.
	Prefill, Decode []string
	// PollInterval is the time between two polls of an engine; 0 is half a second.
	PollInterval time.Duration
	// Token is the deployment's, sent with whatever the router asks of an engine; empty is none.
	Token string
	// Log takes the router's log; nil discards it. Prompts are never logged.
	Log *slog.Logger
}

// resolve checks the configuration and fills in what was left out.
func (c Config) resolve() (Config, error) {
	seen := map[string]bool{}
	var err error
	if c.Config, err = c.Config.Resolve(); err != nil {
		return c, err
	}
	if c.Prefill, err = engineURLs("prefill", c.Prefill, seen); err != nil {
		return c, err
	}
	if c.Decode, err = engineURLs("decode", c.Decode, seen); err != nil {
		return c, err
	}
	if c.PollInterval < 0 {
		return c, fmt.Errorf("poll interval %v: want a positive duration", c.PollInterval)
	}
	if c.PollInterval == 0 {
		c.PollInterval = defaultPollInterval
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// engineURLs brings addresses into the form http://host:port.
func engineURLs(role string, addrs []string, seen map[string]bool) ([]string, error) {
	if len(addrs) == 0 {
		return nil, fmt.Errorf("no %s engine given: want at least one address", role)
	}
	urls := make([]string, len(addrs))
	for i, addr := range addrs {
		u, err := engineURL(addr)
		if err != nil {
			return nil, fmt.Errorf("%s engine %q: %w", role, addr, err)
		}
		if seen[u] {
			return nil, fmt.Errorf("%s engine %q is given twice", role, addr)
		}
		seen[u] = true
		urls[i] = u
	}
	return urls, nil
}

func engineURL(addr string) (string, error) {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	switch {
	case err != nil:
		return "", fmt.Errorf("want http://host:port")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("scheme %s: want http or https", u.Scheme)
	case u.Hostname() == "":
		return "", fmt.Errorf("has no host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("want http://host:port and nothing else")
	}
	return u.Scheme + "://" + u.Host, nil
}
