package llamacpp

import (
	"fmt"
	"strings"
)

// Device is something that llama.cpp's libraries can compute on.
type Device struct {
	// Name is the device's own, as CUDA0; Backend is what drives it, as CUDA.
	Name, Backend string
	// Kind is cpu, gpu, igpu (a GPU that shares the machine's memory) or accel.
	Kind        string
	Description string
	// Free and Total are its memory in bytes; 0 where it does not say.
	Free, Total uint64
}

// The devices that are asked for by what they are.
const (
	CPU        = "cpu"
	AutoDevice = "auto"
)

// The kinds of devices that computing moves to.
const (
	gpu  = "gpu"
	igpu = "igpu"
)

// choose finds the device that a name asks for: its own name, or its backend's, which is that one's
// first. The CPU, as which an empty name counts and which AutoDevice takes where there is no GPU,
// is none of the list: ok is false.
func choose(name string, devices []Device) (at int, ok bool, err error) {
	switch strings.ToLower(name) {
	case "", CPU:
		return 0, false, nil
	case AutoDevice:
		at, ok = best(devices)
		return at, ok, nil
	}
	for i, d := range devices {
		if d.Kind != CPU && strings.EqualFold(d.Name, name) {
			return i, true, nil
		}
	}
	for i, d := range devices {
		if d.Kind != CPU && strings.EqualFold(d.Backend, name) {
			return i, true, nil
		}
	}
	return 0, false, fmt.Errorf("device %q: the libraries offer %s", name, offered(devices))
}

// best is the first GPU with memory of its own, or else the first without.
func best(devices []Device) (int, bool) {
	for _, kind := range []string{gpu, igpu} {
		for i, d := range devices {
			if d.Kind == kind {
				return i, true
			}
		}
	}
	return 0, false
}

// offered lists the devices for a message; the CPU is always one.
func offered(devices []Device) string {
	names := []string{CPU}
	for _, d := range devices {
		if d.Kind != CPU {
			names = append(names, fmt.Sprintf("%s (%s, %s)", d.Name, d.Backend, d.Description))
		}
	}
	if len(names) == 1 {
		return "cpu only; those with another backend are other packages, or need its driver"
	}
	return strings.Join(names, ", ")
}
