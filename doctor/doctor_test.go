package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"kvferry/models"
	"kvferry/runner/gguf"
	"kvferry/runner/llamacpp"
	"kvferry/runner/reference/reftest"
)

var errGone = errors.New("gone")

// open is a model's file in memory.
type open struct{ *bytes.Reader }

func (open) Close() error { return nil }

// machine is one where nothing is missing, with what the kernel tells in files.
func machine(files map[string]string) Probes {
	const gib = 1 << 30
	nothing := func() error { return nil }
	return Probes{
		OS: "linux", Arch: "amd64", CPUs: 8, Features: []string{"AVX2", "FMA"},
		Memory:    func() (uint64, uint64, error) { return 16 * gib, 8 * gib, nil },
		OpenFiles: func() (uint64, uint64, error) { return 8192, 1 << 20, nil },
		ReadFile: func(path string) ([]byte, error) {
			text, ok := files[path]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		},
		Match: func(string) bool { return true }, Listen: func(string) error { return nil },
		SharedMemory: nothing, UnixSocket: nothing,
		OpenModel:  func(string) (Model, error) { return open{bytes.NewReader(models.Tiny)}, nil },
		LlamaBuilt: true, NIXLBuilt: true,
		FindLlama: func(string) (string, error) { return "/opt/llama", nil },
		Devices: func(string) ([]llamacpp.Device, error) {
			return []llamacpp.Device{{Name: "CPU", Kind: llamacpp.CPU, Description: "a processor"}, {Name: "CUDA0", Kind: "gpu", Description: "a card", Free: gib, Total: 2 * gib}}, nil
		},
		FindNIXL: func(string) (string, error) { return "/opt/nixl.so", nil },
	}
}

var ports = []Port{{"127.0.0.1:8000", "the router"}}

// small is a model of an architecture that the reference runner does not know.
func small(t *testing.T, change func(set func(key string, v any))) func(string) (Model, error) {
	t.Helper()
	var w gguf.Writer
	set := func(key string, v any) {
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	set("general.architecture", "qwen9")
	for key, n := range map[string]uint32{
		"block_count": 32, "attention.head_count": 32, "attention.head_count_kv": 8, "embedding_length": 4096,
	} {
		set("qwen9."+key, n)
	}
	change(set)
	return func(string) (Model, error) { return open{bytes.NewReader(w.Bytes())}, nil }
}

// heavy is a model of four bits that both engines run.
func heavy(string) (Model, error) {
	return open{bytes.NewReader(reftest.Model(reftest.ModelOptions{Heads: 2, HeadDim: 32, Type: gguf.Q4_1}))}, nil
}

func context(n uint32) func(func(string, any)) {
	return func(set func(string, any)) { set("qwen9.context_length", n) }
}

// A machine where nothing is missing has no warning, and says what computes and what auto takes.
func TestHealthy(t *testing.T) {
	r := Run(machine(nil), Options{Model: "m.gguf", Ports: ports})
	for _, c := range r.Checks {
		if c.Level != OK {
			t.Errorf("%+v", c)
		}
	}
	if r.Failed() != 0 {
		t.Error("it fails")
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"v0.5.0 in /opt/llama", "--device cpu: a processor", "--device cuda0: a card, 1.0 GiB of 2.0 GiB free", "amd64: AVX2, FMA",
		"8, and no control group limits them", "16.0 GiB, of which 8.0 GiB are available", "at most 8192", "127.0.0.1:8000 is free (the router)",
		"agent tcp", "agent shm", "/opt/nixl.so", "m.gguf: architecture gemma3", "auto takes reference", "-> --engine llamacpp is faster",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// Each thing that can be missing has its line, its level and what to do.
func TestFindings(t *testing.T) {
	const cgroup2 = "0::/a/b\n"
	for name, c := range map[string]struct {
		files  map[string]string
		change func(*Probes, *Options)
		check  string
		level  Level
		found  string
		do     string
	}{
		"not built": {
			nil, func(p *Probes, _ *Options) { p.LlamaBuilt = false },
			"llama.cpp", Warn, "not in this program", "-tags llamacpp",
		},
		"not built, but its folder named": {
			nil, func(p *Probes, o *Options) { p.LlamaBuilt, o.LlamaLib = false, "/opt" },
			"llama.cpp", Fail, "not in this program", "-tags llamacpp",
		},
		"no libffi": {
			nil, func(p *Probes, _ *Options) { p.LlamaBuilt = false; p.Match = func(string) bool { return false } },
			"libffi", Warn, "libffi.so.8 was not found", "libffi8",
		},
		"no libraries": {
			nil, func(p *Probes, _ *Options) {
				p.FindLlama = func(string) (string, error) { return "", llamacpp.ErrNoLibrary }
			},
			"llama.cpp", Warn, "v0.5.0 was not found", "docs/llamacpp.md",
		},
		"another version": {nil, func(p *Probes, o *Options) {
			o.LlamaLib = "/opt"
			p.Devices = func(string) ([]llamacpp.Device, error) { return nil, errors.New("has ggml 0.9") }
		}, "llama.cpp", Fail, "has ggml 0.9", "docs/llamacpp.md"},
		"no device": {
			nil, func(p *Probes, _ *Options) { p.Devices = func(string) ([]llamacpp.Device, error) { return nil, nil } },
			"device", Warn, "the libraries offer none", "libggml-cpu",
		},
		"an old processor": {nil, func(p *Probes, _ *Options) { p.Features = nil }, "cpu", Warn, "no AVX2", "slow"},
		"an arm":           {nil, func(p *Probes, _ *Options) { p.Arch, p.Features = "arm64", []string{"NEON"} }, "cpu", OK, "arm64: NEON", ""},
		"a port taken":     {nil, func(p *Probes, _ *Options) { p.Listen = func(string) error { return errGone } }, "port", Warn, "127.0.0.1:8000 (the router): gone", "the router another address"},
		"no TCP":           {nil, func(p *Probes, _ *Options) { p.Listen = func(string) error { return errGone } }, "agent tcp", Fail, "gone", "loopback"},
		"no shared memory": {nil, func(p *Probes, _ *Options) { p.SharedMemory = func() error { return errGone } }, "agent shm", Warn, "no shared memory: gone", "tcp does without"},
		"no socket":        {nil, func(p *Probes, _ *Options) { p.UnixSocket = func() error { return errGone } }, "agent shm", Warn, "no socket for descriptors: gone", "TMPDIR"},
		"NIXL not built":   {nil, func(p *Probes, _ *Options) { p.NIXLBuilt = false }, "agent nixl", OK, "not in this program", "-tags nixl"},
		"no NIXL":          {nil, func(p *Probes, _ *Options) { p.FindNIXL = func(string) (string, error) { return "", errGone } }, "agent nixl", Warn, "gone", "RDMA"},
		"few files":        {nil, func(p *Probes, _ *Options) { p.OpenFiles = limit(1024, 4096) }, "open files", Warn, "at most 1024", "ulimit -n 4096"},
		"too few files":    {nil, func(p *Probes, _ *Options) { p.OpenFiles = limit(64, 1<<20) }, "open files", Fail, "at most 64", "ulimit -n 65536"},
		"a new control group": {
			map[string]string{"/proc/self/cgroup": cgroup2, "/sys/fs/cgroup/a/b/cpu.max": "max 100000", "/sys/fs/cgroup/a/cpu.max": "150000 100000"},
			nil,
			"cores", Warn, "8, of which a control group gives the time of 1.5", "--threads 1",
		},
		"an old control group": {
			map[string]string{"/proc/self/cgroup": "3:cpuacct,cpu:/x\n1:memory:/y\n", "/sys/fs/cgroup/cpuacct,cpu/x/cpu.cfs_quota_us": "-1", "/sys/fs/cgroup/cpuacct,cpu/cpu.cfs_quota_us": "400000", "/sys/fs/cgroup/cpuacct,cpu/cpu.cfs_period_us": "100000"},
			nil,
			"cores", Warn, "8, of which a control group gives the time of 4", "--threads 4",
		},
		"a wide control group": {map[string]string{"/proc/self/cgroup": cgroup2, "/sys/fs/cgroup/a/b/cpu.max": "800000 100000"}, nil, "cores", OK, "no control group limits them", ""},
		"memory of a group": {
			map[string]string{"/proc/self/cgroup": cgroup2, "/sys/fs/cgroup/a/memory.max": "4294967296", "/sys/fs/cgroup/a/memory.current": "1073741824", "/sys/fs/cgroup/memory.max": "max"},
			nil,
			"memory", OK, "4.0 GiB, of which 3.0 GiB are available", "",
		},
		"memory of an old group": {
			map[string]string{"/proc/self/cgroup": "1:memory:/y\n", "/sys/fs/cgroup/memory/y/memory.limit_in_bytes": "2147483648", "/sys/fs/cgroup/memory/y/memory.usage_in_bytes": "9999999999"},
			nil,
			"memory", OK, "2.0 GiB, of which 0 MiB are available", "",
		},
		"memory unknown": {nil, func(p *Probes, _ *Options) { p.Memory = func() (uint64, uint64, error) { return 0, 0, errGone } }, "memory", Warn, "unknown: gone", ""},
		"large pages":    {map[string]string{"/proc/meminfo": "MemFree: 1 kB\nHugePages_Free:       7\nHugepagesize:       2048 kB\n"}, nil, "large pages", OK, "7 of 2 MiB", ""},
		"other pages":    {map[string]string{"/proc/meminfo": "HugePages_Free:       7\nHugepagesize:       1048576 kB\n"}, nil, "large pages", OK, "none are set aside", "vm.nr_hugepages"},
		"made pages":     {map[string]string{"/sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size [advise] never deny force\n"}, nil, "large pages", OK, "the kernel makes them", ""},
		"no made pages":  {map[string]string{"/sys/kernel/mm/transparent_hugepage/shmem_enabled": "always advise [never] deny force\n"}, nil, "large pages", OK, "none are set aside; pools take small", "vm.nr_hugepages"},
		"no model":       {nil, func(p *Probes, o *Options) { p.OpenModel = func(string) (Model, error) { return nil, errGone } }, "model", Fail, "gone", "GGUF file"},
		"no GGUF": {nil, func(p *Probes, o *Options) {
			p.OpenModel = func(string) (Model, error) { return open{bytes.NewReader([]byte("text"))}, nil }
		}, "model", Fail, "m.gguf: ", "GGUF file"},
		"llama.cpp's model":        {nil, func(p *Probes, _ *Options) { p.OpenModel = small(t, context(4096)) }, "engine", OK, `auto takes llamacpp (reference: key "general.architecture": architecture "qwen9"`, ""},
		"llama.cpp's, without it":  {nil, func(p *Probes, _ *Options) { p.LlamaBuilt, p.OpenModel = false, small(t, context(4096)) }, "engine", Fail, `architecture "qwen9" is not supported: want gemma3 or llama; llamacpp: not in this program`, "-tags llamacpp"},
		"a heavy model":            {nil, func(p *Probes, _ *Options) { p.OpenModel = heavy }, "engine", OK, "auto takes llamacpp, which is faster", ""},
		"heavy, without llama.cpp": {nil, func(p *Probes, _ *Options) { p.LlamaBuilt, p.OpenModel = false, heavy }, "engine", Warn, "auto takes reference, which is slow; llamacpp: not in this program", "-tags llamacpp"},
		"its memory":               {nil, func(p *Probes, _ *Options) { p.OpenModel = small(t, context(2048)) }, "memory of it", OK, "KV of 5 contexts of 2048 tokens with 256 MiB each", ""},
		"its memory, not twice":    {nil, func(p *Probes, _ *Options) { p.OpenModel = small(t, context(8192)) }, "memory of it", Warn, "takes 5.0 GiB: weights 0 MiB, and KV of 5 contexts of 8192 tokens with 1.0 GiB each: not twice", "on another host"},
		"its memory, a long one":   {nil, func(p *Probes, _ *Options) { p.OpenModel = small(t, context(131072)) }, "memory of it", Warn, "contexts of 8192 tokens", ""},
		"more than is available":   {nil, func(p *Probes, _ *Options) { p.Memory, p.OpenModel = has16(4), small(t, context(8192)) }, "memory of it", Warn, "more than the 4.0 GiB that are available", "--context"},
		"more than there is":       {map[string]string{"/proc/self/cgroup": cgroup2, "/sys/fs/cgroup/memory.max": "2147483648"}, func(p *Probes, _ *Options) { p.OpenModel = small(t, context(8192)) }, "memory of it", Fail, "more than the 2.0 GiB that there are", "--kv-blocks"},
		"a shape that is not said": {nil, func(p *Probes, _ *Options) { p.OpenModel = small(t, func(func(string, any)) {}) }, "memory of it", Warn, "qwen9.context_length", ""},
	} {
		p, o := machine(c.files), Options{Model: "m.gguf", Ports: ports}
		if c.change != nil {
			c.change(&p, &o)
		}
		r := Run(p, o)
		i := slices.IndexFunc(r.Checks, func(k Check) bool { return k.Name == c.check })
		if i < 0 {
			t.Errorf("%s: %s is not looked at", name, c.check)
			continue
		}
		got := r.Checks[i]
		if got.Level != c.level || !strings.Contains(got.Found, c.found) || !strings.Contains(got.Do, c.do) || c.do == "" && got.Level == Fail {
			t.Errorf("%s: %+v", name, got)
		}
		if (r.Failed() > 0) != slices.ContainsFunc(r.Checks, func(k Check) bool { return k.Level == Fail }) {
			t.Errorf("%s: %d failed", name, r.Failed())
		}
	}
}

func limit(soft, hard uint64) func() (uint64, uint64, error) {
	return func() (uint64, uint64, error) { return soft, hard, nil }
}

func has16(available uint64) func() (uint64, uint64, error) {
	return func() (uint64, uint64, error) { return 16 << 30, available << 30, nil }
}

// What is written as JSON is the whole report.
func TestJSON(t *testing.T) {
	r := Run(machine(nil), Options{LlamaLib: "/opt", Ports: ports})
	var out bytes.Buffer
	if err := r.JSON(&out); err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(out.Bytes(), &again); err != nil || !slices.Equal(again.Checks, r.Checks) || len(again.Checks) < 10 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// This machine can be looked at: what runs the tests has memory, and takes a model for what it is.
func TestHost(t *testing.T) {
	p := Host()
	total, available, err := p.Memory()
	if err != nil || total < 1<<28 || available > total {
		t.Errorf("%d of %d bytes: %v", available, total, err)
	}
	soft, hard, err := p.OpenFiles()
	if err != nil || soft == 0 || hard < soft {
		t.Errorf("%d of %d files: %v", soft, hard, err)
	}
	if err := errors.Join(p.SharedMemory(), p.UnixSocket(), p.Listen("127.0.0.1:0")); err != nil {
		t.Error(err)
	}
	if p.Match("/no/*") || !p.Match("doc.*") {
		t.Error("patterns do not match")
	}
	r := Run(p, Options{Model: "../models/kvferry-tiny.gguf"})
	if i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == "engine" }); i < 0 || r.Checks[i].Found != "auto takes reference" {
		t.Errorf("%+v", r.Checks)
	}
}
