//go:build linux && amd64 && llamacpp

package llamacpp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvferry/kvcache"
	"kvferry/runner/reference/reftest"
)

// TestDevices: the libraries have the CPU, and refuse by name what they have not, before a model is
// read.
func TestDevices(t *testing.T) {
	needLibrary(t)
	devices, err := Devices("")
	if err != nil || !slices.ContainsFunc(devices, func(d Device) bool { return d.Kind == CPU && d.Description != "" && d.Total > 0 }) {
		t.Fatalf("%+v, %v", devices, err)
	}
	for _, name := range []string{"", CPU, "CPU"} {
		r := opened(t, llamaModel(t), Options{Device: name})
		pass(t, r, "a", tokensOf(20, 1), 0, table(0, 2))
	}
	_, err = Load("m", llamaModel(t), Options{Device: "abacus", BlockTokens: 16, KV: kvcache.F16})
	if err == nil || !strings.Contains(err.Error(), `device "abacus": the libraries offer cpu`) {
		t.Error(err)
	}
}

// TestOnDevices: on each device beside the CPU that the libraries offer (there may be none), a prompt
// is carried from one runner to another exactly, and to one on the CPU but for rounding.
func TestOnDevices(t *testing.T) {
	needLibrary(t)
	devices, err := Devices("")
	if err != nil {
		t.Fatal(err)
	}
	devices = slices.DeleteFunc(devices, func(d Device) bool { return d.Kind == CPU || d.Kind == "accel" })
	if len(devices) == 0 {
		t.Skip("the libraries of " + os.Getenv(Variable) + " offer no other device here")
	}
	for _, d := range devices {
		t.Run(d.Name, func(t *testing.T) {
			path := random(t, reftest.ModelOptions{Layers: 3, KVHeads: 2, HeadDim: 64, Context: 512})
			opt := Options{Device: d.Name}
			importIsExact(t, opened(t, path, opt), opened(t, path, opt), tokensOf(130, 1), 100)
			there, here := opened(t, path, opt), opened(t, path, Options{})
			all := table(0, here.Layout().TotalBlocks(120))
			pass(t, there, "a", tokensOf(100, 1), 0, all)
			copy(here.rows.pools[0], there.rows.pools[0])
			a, b := pass(t, there, "a", []int32{5}, 100, all), pass(t, here, "b", []int32{5}, 100, all)
			for i := range a {
				if d := a[i] - b[i]; d > 0.05 || d < -0.05 {
					t.Fatalf("logit %d is %g there and %g here", i, a[i], b[i])
				}
			}
		})
	}
}

// TestUnlinked: a library of another name beside the missing one is told, and no other.
func TestUnlinked(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"libggml-base.so", "libggml.vulkan.v0.5.0.so"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := FindLibrary(dir)
	if err == nil || !strings.Contains(err.Error(), "libggml.so is not there, but "+filepath.Join(dir, "libggml.vulkan.v0.5.0.so")+" is: make a link") {
		t.Error(err)
	}
}
