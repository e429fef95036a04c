package main

import (
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvferry/config"
	"kvferry/engine"
	"kvferry/node"
)

// Every command refuses to start with settings that do not fit it, and says where they are:
// nothing has been started by then.
// req: PIPE-21
// req: PIPE-23
// req: PIPE-24
func TestCommandsRefuse(t *testing.T) {
	const addresses = "context_servers: {urls: ['a:1']}\ngeneration_servers: {urls: ['b:1']}\n"
	for name, c := range map[string]struct {
		cmd  *cobra.Command
		text string
		args []string
		want string
	}{
		"up with addresses":          {upCommand(), addresses, nil, "F:1:25: context_servers.urls: up starts engines of its own"},
		"up, not built":              {upCommand(), "context_servers:\n  cache_transceiver_config: {kv_cache_bounce_size_mb: 1}\n", nil, "F:2:55: context_servers.cache_transceiver_config.kv_cache_bounce_size_mb: 1: cannot run yet"},
		"up, flag":                   {upCommand(), pipelinedYAML, []string{"--schedule-style=context_first"}, "--schedule-style: schedule_style: context_first: want generation_first"},
		"up, policy of the router's": {upCommand(), "prefill_failure_policy: other\n", []string{"--prefill-tries=0"}, "--prefill-tries: prefill_tries: 0: want at least 1"},
		"router without addresses":   {routerCommand(), "{}", nil, "F:1:1: context_servers.urls: the router needs at least one address"},
		"router, bad address":        {routerCommand(), addresses, []string{"--decode=x"}, `--decode: generation_servers.urls[0]: "x": has no port`},
		"router, style":              {routerCommand(), addresses, []string{"--schedule-style=x"}, `--schedule-style: schedule_style: "x"`},
		"prefill, flag":              {prefillCommand(), "enable_chunked_prefill: false\n", []string{"--pipelined"}, "F:1:25: context_servers.enable_chunked_prefill: false: enable_pipelined_transfer needs true"},
		"prefill, the other's part":  {prefillCommand(), "generation_servers: {max_batch_size: 0}\n", nil, "F:1:38: generation_servers.max_batch_size: 0"},
		"prefill, lease":             {prefillCommand(), "kv_lease_duration: 1\n", []string{"--kv-lease-duration=0s"}, "--kv-lease-duration: kv_lease_duration: 0: want at least 0.001"},
		"decode, policy":             {decodeCommand(), "{}", []string{"--kv-load-failure-policy=local"}, `--kv-load-failure-policy: kv_load_failure_policy: "local": want fail or recompute`},
		"decode, engine":             {decodeCommand(), "{}", []string{"--engine=vllm"}, `--engine: engine: "vllm": want auto, reference or llamacpp`},
		"decode, threads":            {decodeCommand(), "{}", []string{"--threads=0"}, "--threads: generation_servers.llama_config.threads: 0: want at least 1"},
		"prefill, device":            {prefillCommand(), "engine: reference\n", []string{"--device=cuda"}, `--device: context_servers.llama_config.device: "cuda": needs engine llamacpp`},
		"up, requantize":             {upCommand(), "engine: reference\n", []string{"--requantize=q4_0"}, "--requantize: context_servers.requantize: q4_0: needs engine llamacpp"},
		"decode, flag":               {decodeCommand(), "{}", []string{"--block-tokens=0"}, "--block-tokens: generation_servers.kv_cache_config.tokens_per_block: 0"},
		"decode, file":               {decodeCommand(), "generation_servers:\n  max_num_tokens: many\n", nil, `F:2:19: generation_servers.max_num_tokens: "many"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, c.text)
			got := run(c.cmd, append([]string{"--config", path}, c.args...)...)
			if want := strings.Replace(c.want, "F:", path+":", 1); got.err == nil || !strings.HasPrefix(got.err.Error(), want) {
				t.Errorf("got  %v\nwant %s", got.err, want)
			}
			if got.stdout != "" {
				t.Errorf("it says %q", got.stdout)
			}
		})
	}
	if got := run(serveCommand(), "--max-seqs=0"); got.err == nil || got.err.Error() != "--max-seqs: context_servers.max_batch_size: 0: want at least 1" {
		t.Errorf("serve: %v", got.err)
	}
}

// A flag that cannot be read is refused by its name.
func TestFlagsThatCannotBeRead(t *testing.T) {
	for arg, want := range map[string]string{
		"--chunk-tokens=x":            "want a whole number",
		"--chunk-tokens=99999999999":  "want a whole number",
		"--enable-chunked-prefill=no": "invalid syntax",
		"--kv-transfer-timeout=30":    "want a duration",
		"--kv-transfer-timeout=1.5us": "want whole milliseconds",
		"--kv-lease-duration=30":      "want a duration",
		"--decoder-kv-blocks-ttl=":    "want a duration",
		"--listen=localhost":          "want host:port",
		"--listen=localhost:http":     "want a port's number",
	} {
		name, _, _ := strings.Cut(arg, "=")
		if got := run(upCommand(), arg); got.err == nil || !strings.Contains(got.err.Error(), name) || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: %v", arg, got.err)
		}
	}
}

// values are texts that flags take, none of them the default.
var values = map[string]string{
	"listen": "[::1]:81", "schedule-style": "context_first", "prefill": "2", "decode": "3", "model": "m.gguf",
	"enable-chunked-prefill": "false", "chunk-tokens": "17", "max-seqs": "18", "max-waiting": "19", "block-tokens": "20",
	"kv-dtype": "f32", "kv-blocks": "21", "kv-manager": "grow", "enable-block-reuse": "false", "tensor-parallel": "2",
	"pipeline-parallel": "2", "pipelined": "true", "layerwise": "false", "kv-checksum": "true", "kv-transfer-timeout": "1.5s",
	"prefill-failure-policy": "local", "prefill-tries": "3", "local-prefill-cap": "5",
	"kv-lease-duration": "1.25s", "kv-lease-verification": "false", "kv-lease-slots": "22", "decoder-kv-blocks-ttl": "0s",
	"engine": "llamacpp", "requantize": "q4_0", "llama-lib": "/opt/llama", "device": "cuda", "threads": "24", "context": "25",
	"kv-load-failure-policy": "recompute", "kv-recompute-threshold": "23",
	"agent-backend": "TCP", "nixl-lib": "/opt/n.so", "nixl-backend": "POSIX", "nixl-params": "a=b,c=d",
	"agent-connections": "7", "agent-checksum": "true",
	"agent-tls-cert": "tls.crt", "agent-tls-key": "tls.key", "agent-tls-ca": "ca.crt",
}

// Each override has a flag of its name in up and check, which sets it and nothing else; unset
// flags override nothing, and the help shows what that means.
// req: PIPE-24
func TestEachOverrideHasItsFlag(t *testing.T) {
	fields := reflect.VisibleFields(reflect.TypeFor[config.Overrides]())
	for name, value := range values {
		var o config.Overrides
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		styleFlag(f, &o)
		clusterFlags(f, &o, false)
		if !reflect.DeepEqual(o, config.Overrides{}) {
			t.Fatal("unset flags override")
		}
		if err := f.Parse([]string{"--" + name + "=" + value}); err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			set := !reflect.ValueOf(o).FieldByIndex(field.Index).IsNil()
			if want := field.Tag.Get("flag") == name && field.Type.Kind() != reflect.Slice; set != want {
				t.Errorf("--%s: %s is set: %t", name, field.Name, set)
			}
		}
		for _, cmd := range []*cobra.Command{upCommand(), checkCommand()} {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", cmd.Name(), name)
			}
		}
	}
	for _, field := range fields {
		if values[field.Tag.Get("flag")] == "" {
			t.Errorf("%s: no flag is tested", field.Name)
		}
	}
	help := upCommand().UsageString()
	for _, want := range []string{"(default 256)", `(default "embedded")`, "(default 1m0s)", "(default 30s)", "(default 8m0s)", `(default "127.0.0.1:8000")`, "--pipelined "} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is not in\n%s", want, help)
		}
	}
}

// What `up` tells its engines is what they resolve: nothing is lost on the command line between.
// req: PIPE-24
func TestUpTellsItsEnginesEverything(t *testing.T) {
	text := `
context_servers:
  model: p.gguf
  enable_chunked_prefill: true
  max_num_tokens: 11
  max_batch_size: 12
  max_queue_size: 13
  tensor_parallel_size: 2
  llama_config: {llama_lib: lib, device: Vulkan0, threads: 3, context: 300}
  kv_cache_config: {tokens_per_block: 8, dtype: f32, blocks: 14, manager: grow, enable_block_reuse: false}
  cache_transceiver_config: {enable_pipelined_transfer: true, enable_layerwise_transfer: false, kv_transfer_timeout_ms: 1500, enable_checksum: true, kv_lease_duration: 0.123456789, connections: 3, enable_wire_checksum: true, tls: {cert_file: c, key_file: k, ca_file: a}}
generation_servers:
  enable_chunked_prefill: false
  max_num_tokens: 21
  pipeline_parallel_size: 2
  kv_cache_config: {tokens_per_block: 8, dtype: f32, manager: reserve}
  cache_transceiver_config: {decoder_kv_blocks_ttl: 0, kv_recompute_threshold: 9, tls: {cert_file: c, key_file: k, ca_file: a}}
engine: llamacpp
requantize: q4_0
kv_lease_verification: false
kv_lease_slots: 7
decoder_kv_blocks_ttl: 1.5
kv_load_failure_policy: recompute
`
	quiet := slog.New(slog.DiscardHandler)
	up := upOptions{settings: settings{use: config.Up, file: file(t, text)}, drain: 7}
	c, err := up.load(quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []engine.Role{engine.Prefill, engine.Decode} {
		want := up.engine(c, role)
		args := engineArgs(want, role == engine.Prefill)
		cmd := map[engine.Role]*cobra.Command{engine.Prefill: prefillCommand(), engine.Decode: decodeCommand()}[role]
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			told := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--"+f.Name+"=") })
			elsewhere := slices.Contains([]string{"config", "schedule-style", "listen", "agent-listen", "log-level", "token", "trust-network"}, f.Name)
			if told == elsewhere {
				t.Errorf("%s: --%s is told: %t", role, f.Name, told)
			}
		})
		child := settings{use: node.UseOf(role)}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.SetOutput(io.Discard)
		engineFlags(f, &child.over)
		leaseFlags(f, &child.over)
		agentFlags(f, &child.over)
		pipelinedFlag(f, &child.over, false)
		var got node.EngineConfig
		drainFlag(f, &got.DrainTimeout)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		c, err := child.load(quiet)
		if err != nil {
			t.Fatal(err)
		}
		drain := got.DrainTimeout
		got = node.EngineConfigOf(c, role)
		got.DrainTimeout = drain
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", role, got, want)
		}
	}
}

// What `up` tells its router is what it resolves.
// req: PIPE-24
func TestUpTellsItsRouterEverything(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	up := settings{use: config.Up, file: file(t, "schedule_style: context_first\nprefill_failure_policy: local\nprefill_tries: 7\nlocal_prefill_cap: 8\n")}
	c, err := up.load(quiet)
	if err != nil {
		t.Fatal(err)
	}
	args := append(routerArgs(c, 9), "--prefill=a:1", "--decode=b:1")
	routerCommand().Flags().VisitAll(func(f *pflag.Flag) {
		told := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--"+f.Name+"=") })
		if elsewhere := slices.Contains([]string{"config", "listen", "log-level", "token", "trust-network"}, f.Name); told == elsewhere {
			t.Errorf("--%s is told: %t", f.Name, told)
		}
	})
	child := settings{use: config.Router}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	child.fileFlag(f)
	routingFlags(f, &child.over)
	f.StringSliceVar(&child.over.PrefillURLs, "prefill", nil, "")
	f.StringSliceVar(&child.over.DecodeURLs, "decode", nil, "")
	var drain time.Duration
	drainFlag(f, &drain)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	resolved, err := child.load(quiet)
	if err != nil {
		t.Fatal(err)
	}
	got, want := node.RouterConfigOf(resolved), node.RouterConfigOf(c)
	want.Prefill, want.Decode = got.Prefill, got.Decode
	if !reflect.DeepEqual(got, want) || drain != 9 || got.PrefillTries != 7 {
		t.Errorf("drain %s\ngot  %+v\nwant %+v", drain, got, want)
	}
}

// A warning is logged once, with its place.
// req: PIPE-24
func TestWarningsAreLogged(t *testing.T) {
	var log strings.Builder
	path := file(t, pipelinedYAML)
	s := settings{use: config.Up, file: path}
	if _, err := s.load(slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, path+":4:3: context_servers.cache_transceiver_config.transceiver_runtime: auto: go was chosen") {
		t.Errorf("got %q", got)
	}
	log.Reset()
	none := settings{use: config.Up}
	if _, err := none.load(slog.New(slog.NewTextHandler(&log, nil))); err != nil || log.String() != "" {
		t.Errorf("without a file: %v, %q", err, log.String())
	}
}
