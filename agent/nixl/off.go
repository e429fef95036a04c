//go:build !(linux && (amd64 || arm64) && nixl)

package nixl

import (
	"errors"

	"kvferry/agent"
)

// Built says whether this program can use NIXL.
const Built = false

var errNotBuilt = errors.New("NIXL is not built in: build kvferry with -tags nixl, on Linux")

// New says that NIXL is not built in.
func New(Options) (agent.Agent, error) { return nil, errNotBuilt }

// FindLibrary says that NIXL is not built in.
func FindLibrary(string) (string, error) { return "", errNotBuilt }
