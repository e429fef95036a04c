package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvferry/kvcache"
)

// Resolving again changes nothing, and says nothing that it did not say before; the input is
// left alone, and nothing of the result is nil.
// req: PIPE-24
func TestResolveIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		before := clone(c)
		first, _, err := Resolve(c)
		if !equal(c, before) {
			t.Fatal("the input was changed")
		}
		again, warnings, errAgain := Resolve(first)
		if !equal(again, first) {
			t.Fatalf("first %+v, again %+v", first, again)
		}
		if fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("first %v, again %v", err, errAgain)
		}
		if all := paths(err); len(all) != len(slices.Compact(slices.Clone(all))) {
			t.Fatalf("a key has two faults: %v", err)
		}
		for _, w := range warnings {
			if strings.HasSuffix(w.Path, runtimeKey) {
				t.Fatalf("what is resolved warns of its runtime: %v", w)
			}
		}
		for _, k := range keys {
			if !k.section && k.field(&first).IsNil() {
				t.Fatalf("%s is unsaid", k.path)
			}
		}
		if err == nil && *first.ContextServers.Transceiver.Backend != "TCP" {
			t.Fatalf("the backend is %s", *first.ContextServers.Transceiver.Backend)
		}
	})
}

// What is printed loads as what was printed, whatever text is in it.
// req: PIPE-24
func TestPrintedLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _, err := Resolve(drawConfig(t))
		if err != nil {
			c, _, err = Resolve(Config{Model: drawConfig(t).Model})
		}
		if err != nil {
			t.Skip()
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := Load(Source{Data: out})
		if err != nil || !equal(again, c) {
			t.Fatalf("%s\nloads as %+v, %v", out, again, err)
		}
	})
}

// The table of what pipelining needs, by every combination of its rows on the sending and on
// the receiving side. The expectation is written here from the requirements alone.
// req: PIPE-21
// req: PIPE-22
// req: PIPE-23
func TestPipeliningTable(t *testing.T) {
	styles := []string{"generation_first", "context_first"}
	backends := []string{"DEFAULT", "TCP", "NIXL", "SHM", "MOONCAKE", "UCX"}
	runtimes := []string{"auto", "go", "PYTHON", "CPP"}
	cases := 0
	for _, sends := range []bool{true, false} {
		for i := range len(styles) * len(backends) * len(runtimes) * 16 {
			pipelined, chunked, bounce, stages := i&1 > 0, i&2 > 0, i>>2&1*64, i>>3&1+1
			style := styles[i>>4%2]
			backend := backends[i>>5%len(backends)]
			runtime := runtimes[i>>5/len(backends)]
			var c Config
			s := &c.GenerationServers
			path := generationServers + "."
			if sends {
				s, path = &c.ContextServers, contextServers+"."
			}
			c.ScheduleStyle = &style
			s.EnableChunkedPrefill, s.PipelineParallelSize = &chunked, &stages
			s.Transceiver = Transceiver{Backend: &backend, EnablePipelinedTransfer: &pipelined, KVCacheBounceSizeMB: &bounce, TransceiverRuntime: &runtime}
			var want []string
			add := func(refused bool, key string) {
				if refused {
					want = append(want, key)
				}
			}
			add(pipelined && style == "context_first", "schedule_style")
			add(pipelined && !chunked, path+"enable_chunked_prefill")
			add(pipelined && bounce > 0, path+"cache_transceiver_config.kv_cache_bounce_size_mb")
			add(backend == "MOONCAKE" || backend == "UCX", path+"cache_transceiver_config.backend")
			add(runtime != "auto" && runtime != "go", path+"cache_transceiver_config.transceiver_runtime")
			_, _, err := Resolve(c)
			if got := paths(err); !slices.Equal(got, sorted(want)) {
				t.Fatalf("%+v: refuses %v, want %v", *s, got, want)
			}
			cases++
		}
	}
	if cases < 1500 {
		t.Fatalf("%d cases", cases)
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

func paths(err error) (out []string) {
	var e *Error
	if errors.As(err, &e) {
		for _, f := range e.Faults {
			out = append(out, f.Path)
		}
	}
	return sorted(out)
}

// A refusal of pipelining names the setting that is in the way and the one it is in the way of.
// req: PIPE-23
func TestRefusalsNamePipelining(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.ScheduleStyle = new("context_first") },
		func(c *Config) { c.EnableChunkedPrefill = new(false) },
		func(c *Config) { c.ContextServers.Transceiver.KVCacheBounceSizeMB = new(1) },
		func(c *Config) { c.ContextServers.Transceiver.Backend = new("MPI") },
		func(c *Config) { c.ContextServers.Transceiver.TransceiverRuntime = new("CPP") },
	} {
		c := Config{}
		c.ContextServers.Transceiver.EnablePipelinedTransfer = new(true)
		change(&c)
		_, _, err := Resolve(c)
		if err == nil || !strings.Contains(err.Error(), "enable_pipelined_transfer") || len(err.(*Error).Faults) != 1 {
			t.Errorf("got %v", err)
		}
		c.ContextServers.Transceiver.EnablePipelinedTransfer = new(false)
		if _, _, err := Resolve(c); err != nil && strings.Contains(err.Error(), "enable_pipelined_transfer") {
			t.Errorf("without pipelining: %v", err)
		}
	}
}

// Pipelining is off unless it is said, and auto becomes a runtime with a warning where it
// was written or pipelining depends on it.
// req: PIPE-23
// req: PIPE-24
func TestDefaults(t *testing.T) {
	if *Default().ContextServers.Transceiver.EnablePipelinedTransfer {
		t.Error("pipelining is on by default")
	}
	if _, _, err := Resolve(Config{}); err != nil {
		t.Error(err)
	}
	if _, _, err := Resolve(Default()); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		runtime   *string
		pipelined bool
		want      int
	}{
		{nil, false, 0},
		{new("auto"), false, 1},
		{nil, true, 1},
		{new("auto"), true, 1},
		{new("go"), true, 0},
	} {
		var in Config
		in.ContextServers.Transceiver = Transceiver{TransceiverRuntime: c.runtime, EnablePipelinedTransfer: &c.pipelined}
		out, warnings, err := Resolve(in)
		if err != nil || len(warnings) != c.want || *out.ContextServers.Transceiver.TransceiverRuntime != "go" {
			t.Errorf("%+v: %d warnings, %v", c, len(warnings), err)
		}
	}
}

// The tags fit the types, and each key says what it is.
func TestTags(t *testing.T) {
	for _, k := range keys {
		if k.doc == "" {
			t.Errorf("%s has no doc", k.path)
		}
		if k.section || k.typ.Kind() == reflect.Slice {
			continue
		}
		if (k.fallback == "") == (k.inherit == "") {
			t.Errorf("%s: want a default or a key to inherit from", k.path)
		}
		if k.ranged() && k.max <= k.min {
			t.Errorf("%s: no range", k.path)
		}
		if _, ok := byPath[k.inherit]; k.inherit != "" && !ok {
			t.Errorf("%s inherits from nothing", k.path)
		}
	}
	for _, word := range byPath[contextServers+".kv_cache_config.dtype"].words {
		if _, err := kvcache.ParseDType(word); err != nil {
			t.Error(err)
		}
	}
	for _, word := range slices.Concat(byPath[contextServers+"."+backendKey].words, byPath[contextServers+"."+backendKey].known) {
		if _, ok := backends[word]; !ok && word != "DEFAULT" {
			t.Errorf("backend %s has no row", word)
		}
	}
}

// CheckEngine judges an engine's own section, by what all engines' files are judged by.
// req: PIPE-24
func TestCheckEngine(t *testing.T) {
	for _, u := range []Use{Prefill, Decode, Serve} {
		var s Servers
		if err := CheckEngine(u, s); err != nil {
			t.Error(err)
		}
		s.KVCache.TokensPerBlock = new(8) // which the other engines then have too
		if err := CheckEngine(u, s); err != nil {
			t.Error(err)
		}
		s.MaxNumTokens = new(0)
		s.Transceiver.KVCacheBounceSizeMB, s.Transceiver.EnablePipelinedTransfer = new(1), new(true) // wrong in two ways
		section := u.sections()[0] + "."
		want := []string{section + bounceKey, section + "max_num_tokens"}
		if got := paths(CheckEngine(u, s)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// Listen is an address that a listener takes.
func TestListen(t *testing.T) {
	for host, want := range map[string]string{"": ":80", "localhost": "localhost:80", "::1": "[::1]:80"} {
		if got := (Config{Hostname: &host, Port: new(80)}).Listen(); got != want {
			t.Errorf("%q: %s", host, got)
		}
	}
}
