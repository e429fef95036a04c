package doctor

import (
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"kvferry/agent/memory"
	"kvferry/agent/nixl"
	"kvferry/runner/llamacpp"
)

// Host are the probes of this machine.
func Host() Probes {
	return Probes{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Features: features(),
		Memory: machineMemory, OpenFiles: openFiles, ReadFile: os.ReadFile, Match: match, Listen: listen,
		SharedMemory: sharedMemory, UnixSocket: unixSocket, OpenModel: openModel,
		LlamaBuilt: llamacpp.Built, FindLlama: llamacpp.FindLibrary, Devices: llamacpp.Devices,
		NIXLBuilt: nixl.Built, FindNIXL: nixl.FindLibrary,
	}
}

func features() (out []string) {
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"AVX2", cpu.X86.HasAVX2},
		{"FMA", cpu.X86.HasFMA},
		{"AVX-512", cpu.X86.HasAVX512F},
		{"AVX-512 VNNI", cpu.X86.HasAVX512VNNI},
		{"NEON", cpu.ARM64.HasASIMD},
		{"NEON dot product", cpu.ARM64.HasASIMDDP},
		{"SVE", cpu.ARM64.HasSVE},
	} {
		if f.has {
			out = append(out, f.name)
		}
	}
	return out
}

func openFiles() (soft, hard uint64, err error) {
	var l unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), uint64(l.Max), err
}

func match(pattern string) bool {
	found, _ := filepath.Glob(pattern)
	return len(found) > 0
}

func listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

func sharedMemory() error {
	m, err := memory.Map("kvferry-doctor", os.Getpagesize())
	if err != nil {
		return err
	}
	return m.Close()
}

func unixSocket() error {
	dir, err := os.MkdirTemp("", "kvferry-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	return l.Close()
}

// modelFile is a Model of the file system.
type modelFile struct {
	*os.File
	size int64
}

// Size is the file's length in bytes.
func (m modelFile) Size() int64 { return m.size }

func openModel(path string) (Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return modelFile{f, info.Size()}, nil
}
