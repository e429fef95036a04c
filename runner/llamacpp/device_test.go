package llamacpp

import (
	"strings"
	"testing"
)

// A device is taken by its own name before its backend's, whatever the case; the CPU, which is
// always there, is none of the list, and what is not there is refused with what is.
func TestChoose(t *testing.T) {
	cpu := Device{Name: "CPU", Backend: "CPU", Kind: CPU, Description: "a processor"}
	both := []Device{
		cpu,
		{Name: "Vulkan0", Backend: "Vulkan", Kind: igpu, Description: "in it"},
		{Name: "CUDA0", Backend: "CUDA", Kind: gpu, Description: "a card"},
		{Name: "CUDA1", Backend: "CUDA", Kind: gpu, Description: "another"},
		{Name: "CUDA", Backend: "odd", Kind: gpu},
	}
	for _, c := range []struct {
		name    string
		devices []Device
		want    int // -1 is the CPU
		refused string
	}{
		{"", both, -1, ""},
		{"cpu", both, -1, ""},
		{"CPU", both, -1, ""},
		{"cpu", nil, -1, ""},
		{"auto", both, 2, ""},
		{"auto", both[:2], 1, ""},
		{"auto", both[:1], -1, ""},
		{"cuda1", both, 3, ""},
		{"cuda", both, 4, ""}, // a name goes before a backend
		{"cuda", both[:4], 2, ""},
		{"vulkan", both, 1, ""},
		{"metal", both[:2], 0, `device "metal": the libraries offer cpu, Vulkan0 (Vulkan, in it)`},
		{"cuda", both[:1], 0, `device "cuda": the libraries offer cpu only`},
	} {
		at, ok, err := choose(c.name, c.devices)
		switch {
		case c.refused != "":
			if err == nil || !strings.HasPrefix(err.Error(), c.refused) {
				t.Errorf("%q: %v, want %q", c.name, err, c.refused)
			}
		case err != nil || ok != (c.want >= 0) || ok && at != c.want:
			t.Errorf("%q of %d devices: %d, %t, %v, want %d", c.name, len(c.devices), at, ok, err, c.want)
		}
	}
}
