//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import "github.com/hybridgroup/yzma/pkg/llama"

// Devices are what the libraries of a folder (FindLibrary) can compute on here. It loads them.
func Devices(dir string) ([]Device, error) {
	dir, err := FindLibrary(dir)
	if err == nil {
		err = loadLibrary(dir)
	}
	if err != nil {
		return nil, err
	}
	devices, _ := devices()
	return devices, nil
}

var kindsOfDevice = map[llama.GGMLBackendDeviceType]string{
	llama.GGMLBackendDeviceTypeCPU: CPU, llama.GGMLBackendDeviceTypeGPU: gpu,
	llama.GGMLBackendDeviceTypeIGPU: igpu, llama.GGMLBackendDeviceTypeACCEL: "accel",
}

// devices lists what the loaded libraries have, each with its handle.
func devices() (out []Device, handles []llama.GGMLBackendDevice) {
	for i := range llama.GGMLBackendDeviceCount() {
		h := llama.GGMLBackendDeviceGet(i)
		d := Device{
			Name: llama.GGMLBackendDeviceName(h), Kind: kindsOfDevice[llama.GGMLBackendDevType(h)],
			Backend:     llama.GGMLBackendRegName(llama.GGMLBackendDeviceBackendReg(h)),
			Description: llama.GGMLBackendDeviceDescription(h),
		}
		d.Free, d.Total = llama.GGMLBackendDeviceMemory(h)
		out, handles = append(out, d), append(handles, h)
	}
	return out, handles
}

// allLayers is more than any model has.
const allLayers = 1 << 16

// place makes a model be computed on the device that the options name, and on no other: the list
// of devices, which llama.cpp keeps looking at while it loads, ends with none.
func (r *Runner) place(params *llama.ModelParams) error {
	known, handles := devices()
	at, ok, err := choose(r.opt.Device, known)
	if err != nil {
		return err
	}
	r.devices = []llama.GGMLBackendDevice{0}
	params.NGpuLayers = 0
	if ok {
		r.devices = []llama.GGMLBackendDevice{handles[at], 0}
		params.NGpuLayers = allLayers
	}
	return params.SetDevices(r.devices)
}
