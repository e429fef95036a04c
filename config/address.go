package config

import (
	"fmt"
	"strconv"
	"strings"
)

// normalizeURLs brings every address into the form http://host:port, and refuses what is none
// or is given twice.
func normalizeURLs(c *Config) (faults []Finding) {
	seen := map[string]string{}
	for _, s := range c.sides() {
		for i, given := range s.URLs {
			path := fmt.Sprintf("%s.urls[%d]", s.path, i)
			url, why := engineURL(given)
			switch before, twice := seen[url]; {
			case why != "":
				faults = append(faults, at(path, "%s: %s", quote(given), why))
			case twice:
				faults = append(faults, at(path, "%s: is %s already", quote(given), before))
			default:
				seen[url] = path
				s.URLs[i] = url
			}
		}
	}
	return faults
}

// engineURL makes http://host:port of an address, or says what is wrong with it.
func engineURL(s string) (url, why string) {
	scheme, rest, schemed := strings.Cut(s, "://")
	if !schemed {
		scheme, rest = "http", s
	}
	scheme, rest = strings.ToLower(scheme), strings.TrimRight(rest, "/")
	host, port, ok := splitHostPort(rest)
	switch {
	case scheme != "http" && scheme != "https":
		return "", "want the scheme http or https"
	case strings.ContainsAny(rest, "/?#@%"):
		return "", "want http://host:port and nothing else"
	case !ok || !validHost(host):
		return "", "want http://host:port"
	case port == "" && !schemed:
		return "", "has no port: want host:port"
	case port != "" && !validPort(port):
		return "", "want a port from 1 to 65535"
	}
	return scheme + "://" + rest, ""
}

// splitHostPort cuts host:port, host, [v6]:port or [v6].
func splitHostPort(s string) (host, port string, ok bool) {
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		host, rest, closed := strings.Cut(inner, "]")
		port, colon := strings.CutPrefix(rest, ":")
		return host, port, closed && strings.Contains(host, ":") && (rest == "" || colon && port != "")
	}
	host, port, colon := strings.Cut(s, ":")
	return host, port, !strings.Contains(port, ":") && (!colon || port != "")
}

// validHost takes names, IPv4 and IPv6 addresses without brackets.
func validHost(s string) bool {
	v6 := strings.Contains(s, ":")
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		case v6 && (c == ':' || c == '%'):
		default:
			return false
		}
	}
	return s != "" && strings.Count(s, ":") != 1
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}
