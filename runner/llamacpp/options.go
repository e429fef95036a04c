package llamacpp

import (
	"errors"
	"log/slog"

	"kvferry/kvcache"
)

// Options choose the library, how the KV cache is stored, and what llama.cpp may use.
type Options struct {
	// Library is the folder of llama.cpp's libraries; empty looks for them (FindLibrary).
	Library string
	// Device is what computes: CPU, or empty; AutoDevice; the name of a backend, as cuda, metal or
	// vulkan, whose first device it is; or a device's own name (Devices).
	Device string
	// BlockTokens is how many tokens a block holds.
	BlockTokens int
	// KV is the stored type of keys and values.
	KV kvcache.DType
	// Context is the most tokens of a sequence; 0 takes the model's, at most 8192.
	Context int
	// Sequences is how many are computed together, at most 255; 0 takes 16.
	Sequences int
	// Threads is how many threads compute; 0 takes one.
	Threads int
	// StateAPI makes KV always go by llama.cpp's states, and never straight from its memory.
	StateAPI bool
	// Log, if not nil, is told when KV goes by states though StateAPI does not ask for it.
	Log *slog.Logger
}

// The version of llama.cpp that the binding knows, and what its libraries say they are.
const (
	Version     = "v0.5.0"
	ggmlVersion = "0.25.1"
)

// Variable is the environment variable that names the folder of llama.cpp's libraries.
const Variable = "KVFERRY_LLAMA_LIB"

// ErrNoLibrary is in the errors of a folder without the libraries, and of a search for them.
var ErrNoLibrary = errors.New("llama.cpp " + Version + " was not found: install its shared libraries and name their folder by --llama-lib or " + Variable)
