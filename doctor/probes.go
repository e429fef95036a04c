package doctor

import (
	"io"

	"kvferry/runner/llamacpp"
)

// Probes are all that Run asks of the system.
type Probes struct {
	// OS and Arch are as Go names them.
	OS, Arch string
	// CPUs is how many processors this process may use, Features what they can.
	CPUs     int
	Features []string
	// Memory is the machine's, in bytes; available is what can be had without swapping.
	Memory func() (total, available uint64, err error)
	// OpenFiles is how many files this process may have open, now and at most.
	OpenFiles func() (soft, hard uint64, err error)
	// ReadFile reads what the kernel tells in files.
	ReadFile func(path string) ([]byte, error)
	// Match is whether there is a file of that pattern.
	Match func(pattern string) bool
	// Listen takes a TCP address and gives it back.
	Listen func(addr string) error
	// SharedMemory makes and drops memory that another process can map, UnixSocket a socket that
	// can carry its descriptor.
	SharedMemory, UnixSocket func() error
	// OpenModel opens a model's file.
	OpenModel func(path string) (Model, error)
	// LlamaBuilt and NIXLBuilt say what is in the program.
	LlamaBuilt, NIXLBuilt bool
	// FindLlama finds the folder of llama.cpp's libraries, Devices loads them and says what they
	// compute on. FindNIXL finds NIXL's library.
	FindLlama func(dir string) (string, error)
	Devices   func(dir string) ([]llamacpp.Device, error)
	FindNIXL  func(file string) (string, error)
}

// Model is an open file.
type Model interface {
	io.ReaderAt
	io.Closer
	Size() int64
}
