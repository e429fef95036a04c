package config

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// load loads a file with flags over it and gives what is said, line by line.
func load(use Use, file string, o Overrides) (Config, []string) {
	s := Source{Use: use, Overrides: o}
	if file != "" {
		s.File, s.Data = "f", []byte(file)
	}
	c, _, err := Load(s)
	var e *Error
	if errors.As(err, &e) {
		return c, e.Lines()
	}
	return c, nil
}

const pipelinedFile = `context_servers:
  cache_transceiver_config: {enable_pipelined_transfer: true}
`

// A flag's value passes the validation that the file's would have passed, and the fault names
// the flag; a flag also mends what the file has wrong.
// req: PIPE-21
// req: PIPE-24
func TestOverridesAreValidated(t *testing.T) {
	for name, c := range map[string]struct {
		use  Use
		file string
		over Overrides
		want []string
	}{
		"a style that the file's pipelining forbids": {Up, pipelinedFile, Overrides{ScheduleStyle: new("context_first")}, []string{
			"--schedule-style: schedule_style: context_first: want generation_first with context_servers.cache_transceiver_config.enable_pipelined_transfer, because decode must have registered its blocks when prefill begins to write",
		}},
		"a style for a file that forbids it already": {Check, "schedule_style: context_first\n" + pipelinedFile, Overrides{ScheduleStyle: new("generation_first")}, nil},
		"an unknown style": {Router, "context_servers: {urls: ['a:1']}\ngeneration_servers: {urls: ['b:1']}\n", Overrides{ScheduleStyle: new("first")}, []string{
			`--schedule-style: schedule_style: "first": want generation_first or context_first`,
		}},
		"pipelining over a file's style": {Check, "schedule_style: context_first\n", Overrides{Pipelined: new(true)}, []string{
			"f:1:17: schedule_style: context_first: want generation_first with context_servers.cache_transceiver_config.enable_pipelined_transfer and generation_servers.cache_transceiver_config.enable_pipelined_transfer, because decode must have registered its blocks when prefill begins to write",
		}},
		"a style against pipelining that was asked for too": {Up, "", Overrides{ScheduleStyle: new(ContextFirst), Pipelined: new(true)}, []string{
			"--schedule-style: schedule_style: context_first: want generation_first with context_servers.cache_transceiver_config.enable_pipelined_transfer and generation_servers.cache_transceiver_config.enable_pipelined_transfer, because decode must have registered its blocks when prefill begins to write",
		}},
		"a lease that is too short":        {Up, "", Overrides{LeaseDuration: new(Seconds(0))}, []string{"--kv-lease-duration: kv_lease_duration: 0: want at least 0.001"}},
		"a policy that the file has wrong": {Decode, "kv_load_failure_policy: none\n", Overrides{LoadFailurePolicy: new(RecomputePolicy)}, nil},
		"no chunks under pipelining": {Prefill, pipelinedFile, Overrides{ChunkedPrefill: new(false)}, []string{
			"--enable-chunked-prefill: context_servers.enable_chunked_prefill: false: enable_pipelined_transfer needs true, because what it sends are the scheduler's chunks",
		}},
		"one flag for two sections is said once": {Up, "", Overrides{ChunkTokens: new(0)}, []string{
			"--chunk-tokens: context_servers.max_num_tokens: 0: want at least 1",
		}},
		"places first, then flags": {Up, "port: 70000\n", Overrides{KVBlocks: new(-1), Decode: new(0)}, []string{
			"f:1:7: port: 70000: want at most 65535",
			"--kv-blocks: context_servers.kv_cache_config.blocks: -1: want at least 0",
			"--decode: generation_servers.num_instances: 0: want at least 1",
		}},
		"blocks of one engine that differ from the other's": {Decode, "port: 1\n", Overrides{BlockTokens: new(8)}, []string{
			"--block-tokens: generation_servers.kv_cache_config.tokens_per_block: 8: the prefill engines have 16, and blocks must be equal",
		}},
		"one engine's blocks, of which no file says that others are there": {Decode, "", Overrides{BlockTokens: new(8), KVDType: new("f32")}, nil},
		"one engine's fault, named in its own section":                     {Decode, "", Overrides{BlockTokens: new(0)}, []string{"--block-tokens: generation_servers.kv_cache_config.tokens_per_block: 0: want at least 1"}},
		"addresses replace the file's and their number":                    {Router, "context_servers: {num_instances: 1, urls: [a/b]}\ngeneration_servers: {urls: ['b:1']}\n", Overrides{PrefillURLs: []string{"c:1", "d:1"}}, nil},
		"a wrong address":                        {Router, "context_servers: {urls: ['a:1']}\ngeneration_servers: {urls: ['b:1']}\n", Overrides{PrefillURLs: []string{"c"}}, []string{`--prefill: context_servers.urls[0]: "c": has no port: want host:port`}},
		"a number against the file's addresses":  {Check, "context_servers: {urls: ['a:1']}\n", Overrides{Prefill: new(2)}, []string{"--prefill: context_servers.num_instances: 2: but context_servers.urls has 1"}},
		"no addresses at all":                    {Router, "", Overrides{}, []string{"context_servers.urls: the router needs at least one address", "generation_servers.urls: the router needs at least one address"}},
		"an unreadable key is not judged":        {Router, "context_servers: 1\ngeneration_servers: {urls: ['b:1']}\n", Overrides{}, []string{"f:1:1: context_servers: 1: want keys with values"}},
		"an unreadable file is not judged":       {Router, "[", Overrides{KVBlocks: new(-1)}, []string{"f:1:1: not valid YAML: sequence end token ']' not found"}},
		"a flag over a file's key of wrong type": {Up, "port: eight\n", Overrides{Port: new(0)}, []string{`f:1:7: port: "eight": want a whole number`}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := load(c.use, c.file, c.over); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// Each flag sets its keys in the sections that its command is about, and nothing else.
// req: PIPE-24
func TestOverridesSet(t *testing.T) {
	for _, use := range []Use{Check, Up, Prefill, Decode, Serve} {
		var o Overrides
		v := reflect.ValueOf(&o).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			keys := expand(tag.Get("keys"), use)
			k := byPath[keys[0]]
			if k.typ.Kind() == reflect.Slice {
				continue // TestOverridesAreValidated has them
			}
			o = Overrides{}
			v.Field(i).Set(other(k))
			c, faults := load(use, "{}", o)
			if faults != nil && !slices.Contains([]string{"block-tokens", "kv-dtype", "schedule-style", "agent-tls-cert", "agent-tls-key", "agent-tls-ca", "nixl-params"}, tag.Get("flag")) {
				t.Fatalf("--%s: %v", tag.Get("flag"), faults)
			}
			def := Default()
			for _, k := range byPath {
				if k.section {
					continue
				}
				changed := !reflect.DeepEqual(k.field(&c).Interface(), k.field(&def).Interface())
				inherits := slices.Contains(keys, k.inherit)
				if changed != (slices.Contains(keys, k.path) || inherits) {
					t.Errorf("use %d, --%s: %s changed: %t", use, tag.Get("flag"), k.path, changed)
				}
			}
		}
	}
}

// other is a valid value of a key that is not its default.
func other(k key) reflect.Value {
	v := reflect.New(k.typ.Elem())
	switch {
	case k.isInt:
		v.Elem().SetInt(int64(number(k.fallback) + 1))
	case k.isTime:
		v.Elem().SetFloat(number(k.fallback) + 0.5)
	case k.typ == reflect.TypeFor[*bool]():
		v.Elem().SetBool(k.fallback != "true" && k.inherit == "")
	case k.words != nil:
		v.Elem().SetString(k.words[1])
	default:
		v.Elem().SetString("other")
	}
	return v
}

// Without a file `up` pipelines, and says nothing about a runtime that nobody asked about;
// with one it does what the file says. Where pipelining is only taken for granted, it gives way
// to a style that it does not go with.
// req: PIPE-21
// req: PIPE-23
func TestUpPipelinesByItself(t *testing.T) {
	for _, c := range []struct {
		use  Use
		data string
		over Overrides
		want bool
	}{
		{Up, "", Overrides{}, true},
		{Up, "", Overrides{Pipelined: new(false)}, false},
		{Up, "", Overrides{ScheduleStyle: new(ContextFirst)}, false},
		{Up, "", Overrides{ScheduleStyle: new(GenerationFirst)}, true},
		{Up, "", Overrides{ScheduleStyle: new(ContextFirst), Pipelined: new(false)}, false},
		{Up, "{}", Overrides{}, false},
		{Up, "{}", Overrides{Pipelined: new(true)}, true},
		{Prefill, "", Overrides{}, false},
		{Prefill, "", Overrides{Pipelined: new(true)}, true},
		{Prefill, pipelinedFile, Overrides{}, true},
		{Serve, "", Overrides{}, false},
	} {
		s := Source{Use: c.use, Overrides: c.over}
		if c.data != "" {
			s.Data = []byte(c.data)
		}
		got, warnings, err := Load(s)
		if err != nil || *got.ContextServers.Transceiver.EnablePipelinedTransfer != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if c.data == "" && len(warnings) > 0 {
			t.Errorf("%+v: %v", c, warnings)
		}
	}
}

// Whatever a file and flags say, all is told in order, at a place or a flag, and a key once.
func TestFindingsAreSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, err := drawConfig(t).YAML()
		if err != nil {
			t.Fatal(err)
		}
		o := Overrides{Model: drawConfig(t).Model, ChunkTokens: drawConfig(t).Port, ScheduleStyle: drawConfig(t).ScheduleStyle}
		use := Use(rapid.IntRange(0, int(Serve)).Draw(t, "use"))
		_, _, err = Load(Source{Use: use, File: "f", Data: text, Overrides: o})
		var e *Error
		if !errors.As(err, &e) {
			return
		}
		last := Place{1, 1}
		for i, f := range e.Faults {
			switch {
			case f.Flag != "":
				last = Place{1 << 30, 0}
				for _, g := range e.Faults[:i] {
					if g.Flag == f.Flag && g.Message == f.Message {
						t.Fatalf("twice: %v", f)
					}
				}
			case f.Line < last.Line || f.Line == last.Line && f.Column < last.Column:
				t.Fatalf("out of order: %v", err)
			default:
				last = f.Place
			}
		}
	})
}

// The example of the documentation is right, and can run.
func TestExample(t *testing.T) {
	data, err := os.ReadFile("../docs/example.yml")
	if err != nil {
		t.Fatal(err)
	}
	for use, want := range map[Use]string{Check: "", Up: "up starts engines of its own", Router: "", Prefill: "", Decode: ""} {
		_, warnings, err := Load(Source{Use: use, File: "example.yml", Data: data})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("use %d: %v", use, err)
		}
		if err == nil && len(warnings) > 0 {
			t.Errorf("use %d: %v", use, warnings)
		}
	}
}
