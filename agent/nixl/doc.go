// Package nixl is a transfer agent over NIXL, and through it over what NIXL has backends for: UCX
// with RDMA fabrics, shared memory or TCP.
//
// NIXL moves the bytes; everything else that an agent does goes over a control agent of ours (a
// connection of agent/tcp): the handshake with its refusals, notices, signs of life. After the
// handshake each side gives the other a card with NIXL's own metadata and the addresses of its
// regions; a peer is up when its card is loaded. A write's notice is given to the control agent
// once NIXL says that the write is done, which it says when the bytes are flushed at the peer.
//
// NIXL cannot refuse a write, so there is no fencing: what an abandoned receive might still be
// written by stays in quarantine until the writer says that it has ended. And what a peer may
// touch is what NIXL registered, all pools, from the handshake on: admit only peers that know the
// deployment's token.
//
// It is built with the tag nixl on Linux, as its binding makes the program need glibc.
package nixl

import (
	"errors"
	"log/slog"

	"kvferry/agent"
)

// Options of an agent.
type Options struct {
	// Control shakes hands and carries what is small. It has no memory of its own, and is
	// started and closed by this agent. It must be given.
	Control agent.Agent
	// Library is the file libnixl_capi.so; empty looks for it (FindLibrary).
	Library string
	// Backend is NIXL's name of what moves the bytes: UCX.
	Backend string
	// Params are the backend's own, as NIXL names them.
	Params map[string]string
	// Log gets an event a line: slog.Default().
	Log *slog.Logger
}

// Variable is the environment variable that names NIXL's library.
const Variable = "KVFERRY_NIXL_LIB"

// ErrNoLibrary is in the errors of a search for the library.
var ErrNoLibrary = errors.New("NIXL was not found: install nixl-cu12 (>= 1.0, < 2) with pip, and name its libnixl_capi.so by " + Variable)

// DefaultBackend is what `DEFAULT` means where NIXL is the agent.
const DefaultBackend = "UCX"
