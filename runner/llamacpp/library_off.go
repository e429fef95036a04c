//go:build !((linux || darwin) && (amd64 || arm64)) || nollamacpp

package llamacpp

import (
	"errors"

	"kvferry/runner"
)

var errNotBuilt = errors.New("this kvferry was built without llama.cpp: it is built with it on Linux and macOS, on amd64 and arm64, without the tag nollamacpp")

// FindLibrary says that llama.cpp is not built in.
func FindLibrary(string) (string, error) { return "", errNotBuilt }

// Load says that llama.cpp is not built in.
func Load(name, path string, opt Options) (runner.Runner, error) { return nil, errNotBuilt }
