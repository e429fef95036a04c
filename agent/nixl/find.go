//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"fmt"
	"os"
	"path/filepath"
)

// Built says whether this program can use NIXL.
const Built = true

// places are where pip puts NIXL's wheel, as patterns.
func standard() []string {
	const file = "lib/python3*/*-packages/.nixl_cu1*.mesonpy.libs/libnixl_capi.so"
	var dirs []string
	if env := os.Getenv("VIRTUAL_ENV"); env != "" {
		dirs = append(dirs, env)
	}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".local"))
	}
	dirs = append(dirs, "/usr/local", "/usr")
	for i, d := range dirs {
		dirs[i] = filepath.Join(d, file)
	}
	return dirs
}

// FindLibrary is the file libnixl_capi.so: the one named, or else what the environment variable
// names, or else the first in a place where pip puts it.
func FindLibrary(file string) (string, error) {
	if file == "" {
		file = os.Getenv(Variable)
	}
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return "", fmt.Errorf("%w (%w)", ErrNoLibrary, err)
		}
		return file, nil
	}
	for _, pattern := range standard() {
		if files, _ := filepath.Glob(pattern); len(files) > 0 {
			return files[0], nil
		}
	}
	return "", ErrNoLibrary
}
