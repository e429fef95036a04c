//go:build !linux

package shm

import (
	"errors"

	"kvferry/agent"
)

// Agent is not to be had on this system.
type Agent struct{ agent.Agent }

// New fails: descriptors that others can only read are Linux's.
func New(Options) (*Agent, error) {
	return nil, errors.New("shm: shared memory between processes needs Linux; use tcp here")
}
