//go:build !((linux || darwin) && (amd64 || arm64)) || !llamacpp

package llamacpp

import (
	"errors"

	"kvferry/runner"
)

// Built says whether this program can use llama.cpp.
const Built = false

var errNotBuilt = errors.New("this kvferry was built without llama.cpp: build it with -tags llamacpp, on Linux or macOS, on amd64 or arm64")

// FindLibrary says that llama.cpp is not built in.
func FindLibrary(string) (string, error) { return "", errNotBuilt }

// Devices says that llama.cpp is not built in.
func Devices(string) ([]Device, error) { return nil, errNotBuilt }

// Requantize says that llama.cpp is not built in.
func Requantize(path, kind string, opt Options, before func(to string)) (string, error) {
	return "", errNotBuilt
}

// Load says that llama.cpp is not built in.
func Load(name, path string, opt Options) (runner.Runner, error) { return nil, errNotBuilt }
