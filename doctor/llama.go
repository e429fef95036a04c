package doctor

import (
	"fmt"
	"strings"

	"kvferry/runner/llamacpp"
)

// llama is what there is of llama.cpp.
type llama struct {
	usable bool
	why    string // not
	do     string
}

// ffi is where the library lies that the binding opens when a program with llama.cpp starts.
var ffi = []string{"/usr/lib/*/libffi.so.8", "/lib/*/libffi.so.8", "/usr/lib/libffi.so.8", "/usr/lib64/libffi.so.8", "/lib64/libffi.so.8", "/usr/local/lib/libffi.so.8"}

func (d *patient) lookAtLlama() {
	const name = "llama.cpp"
	if !d.LlamaBuilt {
		d.llama = llama{why: "not in this program", do: "build it with -tags llamacpp, on Linux or macOS"}
		d.add(name, d.wanted(), d.llama.do, "%s", d.llama.why)
		d.lookForFFI()
		return
	}
	d.add("libffi", OK, "", "loaded") // or the program had not started
	dir, err := d.FindLlama(d.LlamaLib)
	var devices []llamacpp.Device
	if err == nil {
		devices, err = d.Devices(dir)
	}
	if err != nil {
		d.llama = llama{why: err.Error(), do: "docs/llamacpp.md says where the libraries of " + llamacpp.Version + " come from"}
		d.add(name, d.wanted(), d.llama.do, "%s", d.llama.why)
		return
	}
	d.llama.usable = true
	d.add(name, OK, "", "%s in %s", llamacpp.Version, dir)
	d.lookAtDevices(devices)
}

// wanted is how bad it is to be without llama.cpp: who names its folder wants it.
func (d *patient) wanted() Level {
	if d.LlamaLib != "" {
		return Fail
	}
	return Warn
}

// lookForFFI tells whether a program with llama.cpp would start here.
func (d *patient) lookForFFI() {
	if d.OS != "linux" {
		return // it brings its own
	}
	for _, pattern := range ffi {
		if d.Match(pattern) {
			d.add("libffi", OK, "", "is there for a program with llama.cpp")
			return
		}
	}
	d.add("libffi", Warn, "only for a program with llama.cpp: install it (Debian: libffi8)", "libffi.so.8 was not found")
}

func (d *patient) lookAtDevices(devices []llamacpp.Device) {
	if len(devices) == 0 {
		d.add("device", Warn, "put llama.cpp's libggml-cpu-* beside its other libraries", "the libraries offer none")
	}
	for _, v := range devices {
		use := v.Name
		if v.Kind == llamacpp.CPU {
			use = llamacpp.CPU
		}
		text := fmt.Sprintf("--device %s: %s", strings.ToLower(use), v.Description)
		if v.Total > 0 && v.Kind != llamacpp.CPU {
			text += fmt.Sprintf(", %s of %s free", size(v.Free), size(v.Total))
		}
		d.add("device", OK, "", "%s", text)
	}
}
