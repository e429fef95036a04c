package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Resolve fills in what c leaves unsaid and refuses what cannot be: the one place for both,
// whoever calls it (PIPE-24). Resolving again changes nothing, warns of nothing and refuses
// nothing new. The error is an *Error with every fault; c itself is left as it is.
func Resolve(c Config) (resolved Config, warnings []Finding, err error) {
	resolved, warnings, faults := resolve(c)
	return resolved, warnings, faulty("", firstOfKey(faults))
}

func resolve(c Config) (resolved Config, warnings, faults []Finding) {
	c = clone(c)
	auto := autoSaid(c)
	fill(&c)
	for _, k := range keys {
		if !k.section {
			faults = append(faults, k.check(&c)...)
		}
	}
	faults = append(faults, normalizeURLs(&c)...)
	for _, s := range c.sides() {
		faults = append(faults, s.checkTransport()...)
		warnings = append(warnings, s.choose(auto[s.path])...)
	}
	for _, rule := range rules {
		faults = append(faults, rule(c)...)
	}
	return c, append(warnings, senderDecides(c)...), faults
}

// Default is the configuration that asks for nothing.
func Default() Config {
	c, _, _ := resolve(Config{})
	return c
}

// fill gives every unsaid key its default, or what the top level says.
func fill(c *Config) {
	for _, s := range c.sides() {
		if s.NumInstances == nil && len(s.URLs) > 0 {
			s.NumInstances = new(len(s.URLs))
		}
	}
	for _, k := range keys {
		f := k.field(c)
		switch {
		case k.section || !f.IsNil():
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
		case k.inherit != "":
			v := reflect.New(f.Type().Elem())
			v.Elem().Set(byPath[k.inherit].field(c).Elem())
			f.Set(v)
		default:
			k.set(c, k.fallback)
		}
	}
}

// check compares a key's value with its tags.
func (k key) check(c *Config) []Finding {
	f := k.field(c)
	if f.Kind() == reflect.Slice {
		return nil
	}
	if k.inherit != "" && f.Elem().Equal(byPath[k.inherit].field(c).Elem()) {
		return nil // the top level's, where it is checked
	}
	v := f.Elem()
	got := fmt.Sprint(v.Interface())
	switch {
	case k.words != nil && !slices.Contains(k.words, got) && !slices.Contains(k.known, got):
		if !k.isInt {
			return []Finding{at(k.path, "%s: want %s%s", quote(got), or(k.words), suggestWord(got, k.words))}
		}
		return []Finding{at(k.path, "%s: want %s", got, or(k.words))}
	case k.ranged() && amount(v) < k.min:
		return []Finding{at(k.path, "%s: want at least %s", got, decimal(k.min))}
	case k.ranged() && amount(v) > k.max:
		return []Finding{at(k.path, "%s: want at most %s", got, decimal(k.max))}
	case got == "" && filled[k.name()] != "":
		return []Finding{at(k.path, "is empty: want %s", filled[k.name()])}
	case k.path == "hostname" && !validHost(got) && got != "":
		return []Finding{at(k.path, "%s: want a host's name or address; the port is a key of its own", quote(got))}
	}
	return nil
}

// filled are the texts that must not be empty, and what they want instead.
var filled = map[string]string{
	"model":     Embedded + " or the path of a GGUF file",
	"llama_lib": Auto + " or a folder",
	"device":    "cpu, " + Auto + " or a device's name",
	"cert_file": NoFile + " or the path of a PEM file",
	"key_file":  NoFile + " or the path of a PEM file",
	"ca_file":   NoFile + " or the path of a PEM file",
}

// ranged tells whether the key's value is a number with bounds.
func (k key) ranged() bool { return k.isTime || k.isInt && k.words == nil }

func amount(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// Embedded is the name that stands for the model inside the binary.
const Embedded = "embedded"

// Auto is the value of a setting that finds out for itself.
const Auto = "auto"

// or lists words for a message.
func or(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// side is one of the two sections, for rules that are the same for both.
type side struct {
	*Servers
	path string
}

// sides are c's sections; changing them changes c.
func (c *Config) sides() []side {
	return []side{{&c.ContextServers, contextServers}, {&c.GenerationServers, generationServers}}
}

func (s side) pipelined() bool { return *s.Transceiver.EnablePipelinedTransfer }

func (s side) at(key, format string, args ...any) Finding {
	return at(s.path+"."+key, format, args...)
}

// The keys that rules name often.
const (
	pipelinedKey = "cache_transceiver_config.enable_pipelined_transfer"
	backendKey   = "cache_transceiver_config.backend"
	runtimeKey   = "cache_transceiver_config.transceiver_runtime"
	bounceKey    = "cache_transceiver_config.kv_cache_bounce_size_mb"
	pipelining   = "enable_pipelined_transfer"
)

// Listen is the router's address as host:port.
func (c Config) Listen() string {
	host := *c.Hostname
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(*c.Port)
}
