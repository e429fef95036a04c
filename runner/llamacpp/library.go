//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"
)

// Built says whether this program can use llama.cpp.
const Built = true

// parts are the libraries that the binding opens, by their short names.
var parts = []string{"ggml-base", "ggml", "llama"}

// standard are the folders that are looked in when none is named.
func standard() []string {
	dirs := []string{"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/opt/homebrew/lib"}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append([]string{filepath.Join(home, ".local", "lib"), filepath.Join(home, ".cache", "kvferry", "llama")}, dirs...)
	}
	if self, err := os.Executable(); err == nil {
		dirs = append([]string{filepath.Dir(self)}, dirs...)
	}
	return dirs
}

// FindLibrary is the folder of llama.cpp's libraries: dir, or else what the environment variable
// names, or else the first standard place that has them. Whether they are of the version that is
// known, Load sees.
func FindLibrary(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv(Variable)
	}
	if dir != "" {
		return dir, complete(dir)
	}
	for _, d := range standard() {
		if complete(d) == nil {
			return d, nil
		}
	}
	return "", ErrNoLibrary
}

// complete says which library a folder lacks.
func complete(dir string) error {
	for _, p := range parts {
		file := loader.GetLibraryFilename(dir, p)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		ext := filepath.Ext(file)
		if others, _ := filepath.Glob(file[:len(file)-len(ext)] + ".*"); len(others) > 0 {
			return fmt.Errorf("%s is not there, but %s is: make a link of the first name to the right one", file, others[0])
		}
		return fmt.Errorf("%s is not there: %w", file, ErrNoLibrary)
	}
	return nil
}

// loaded is the library of this process: there can be one.
var loaded struct {
	sync.Mutex
	dir string
}

// loadLibrary loads the libraries of a folder, once, if their version is the one that is known.
func loadLibrary(dir string) error {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.dir == dir {
		return nil
	}
	if loaded.dir != "" {
		return fmt.Errorf("llama.cpp of %s is in use; this process cannot load that of %s beside it", loaded.dir, dir)
	}
	got, err := versionOf(dir)
	if err != nil {
		return fmt.Errorf("llama.cpp in %s: %w", dir, err)
	}
	if got != ggmlVersion {
		return fmt.Errorf("llama.cpp in %s has ggml %s, and this program knows %s, of llama.cpp %s: install that version and name its folder by --llama-lib or %s",
			dir, got, ggmlVersion, Version, Variable)
	}
	if err := llama.Load(dir); err != nil {
		return fmt.Errorf("llama.cpp in %s: %w", dir, err)
	}
	llama.LogSet(llama.LogSilent())
	llama.Init()
	loaded.dir = dir
	return nil
}

// versionOf asks the library before anything whose form could differ is called.
func versionOf(dir string) (string, error) {
	lib, err := loader.LoadLibrary(dir, "ggml-base")
	if err != nil {
		return "", err
	}
	version, err := lib.Prep("ggml_version", &ffi.TypePointer)
	if err != nil {
		return "", fmt.Errorf("it does not say its version, so it is older than %s: %w", Version, err)
	}
	var text *byte
	version.Call(unsafe.Pointer(&text))
	return cString(text), nil
}

func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
