//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"
	"golang.org/x/sys/unix"
)

// requantized are the types of weights that can be made.
var requantized = map[string]llama.Ftype{"q4_0": llama.FtypeMostlyQ4_0}

// origin is written beside a file that was made, and says of what.
type origin struct {
	Source   string `json:"source_sha256"`
	Type     string `json:"type"`
	LlamaCpp string `json:"llama_cpp"`
	Size     int64  `json:"size"` // of what was made
}

// making is one model's file with weights of another type.
type making struct {
	from, to, note string
	want           origin // but for the size
}

// Requantize gives the path of a model's file with its weights in the type kind, q4_0: it lies
// beside path, under the same name with .requantized-KIND before its end. One that was made by this
// version of llama.cpp out of what path holds now is taken as it is; else it is made, after before,
// if not nil, was told its path. Several processes may do it at once: one makes it.
func Requantize(path, kind string, opt Options, before func(to string)) (string, error) {
	m, err := newMaking(path, kind)
	if err != nil {
		return "", fmt.Errorf("requantize %s: %w", path, err)
	}
	if m.done() {
		return m.to, nil
	}
	dir, err := FindLibrary(opt.Library)
	if err == nil {
		err = loadLibrary(dir)
	}
	if err == nil {
		err = m.make(opt.withDefaults().Threads, before)
	}
	if err != nil {
		return "", fmt.Errorf("requantize %s: %w", path, err)
	}
	return m.to, nil
}

func newMaking(path, kind string) (*making, error) {
	if _, ok := requantized[kind]; !ok {
		return nil, fmt.Errorf("%q: want q4_0", kind)
	}
	sum, err := fileHash(path)
	if err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(path, ".gguf") + ".requantized-" + kind
	return &making{from: path, to: stem + ".gguf", note: stem + ".json", want: origin{Source: sum, Type: kind, LlamaCpp: Version}}, nil
}

// done says whether the file is there, whole, and made of what the source holds.
func (m *making) done() bool {
	text, err := os.ReadFile(m.note)
	if err != nil {
		return false
	}
	var got origin
	if json.Unmarshal(text, &got) != nil {
		return false
	}
	info, err := os.Stat(m.to)
	if err != nil || info.Size() != got.Size {
		return false
	}
	got.Size = 0
	return got == m.want
}

// make makes the file, unless another process does while this one waits for it.
func (m *making) make(threads int, before func(string)) error {
	part, err := m.lock()
	if err != nil || part == nil {
		return err
	}
	defer part.Close()
	if before != nil {
		before(m.to)
	}
	err = m.quantize(part.Name(), threads)
	if err == nil {
		err = m.publish(part)
	}
	if err != nil {
		os.Remove(part.Name())
	}
	return err
}

// lock opens the unfinished file for this process alone. It is the lock itself, and becomes the
// finished file, so that nothing is left over. There is none where another process has finished
// meanwhile.
func (m *making) lock() (*os.File, error) {
	name := m.to + ".part"
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("the folder %s must be writable: %w", filepath.Dir(m.to), err)
		}
		if err := flock(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		mine, err := isStill(f, name)
		switch {
		case err == nil && mine && !m.done():
			return f, nil
		case err == nil && mine:
			err = os.Remove(name) // made again after another process had finished
		}
		f.Close()
		if err != nil {
			return nil, err
		}
		if m.done() {
			return nil, nil
		}
	}
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isStill says whether a name is still that of an open file.
func isStill(f *os.File, name string) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}

func (m *making) quantize(to string, threads int) error {
	p := llama.ModelQuantizeDefaultParams()
	p.AllowRequantize, p.NThread, p.Ftype = 1, int32(threads), requantized[m.want.Type]
	t := newThread()
	defer t.end()
	return t.do(func() error {
		if code := llama.ModelQuantize(m.from, to, &p); code != 0 {
			return fmt.Errorf("llama.cpp could not make %s of it (is it a model, and is there room in %s?): code %d", m.want.Type, filepath.Dir(to), code)
		}
		return nil
	})
}

// publish gives the file its name, whole and noted. What was made of an earlier source goes first, so
// that at no time a note is beside what it does not speak of.
func (m *making) publish(part *os.File) error {
	if err := part.Sync(); err != nil {
		return err
	}
	info, err := part.Stat()
	if err != nil {
		return err
	}
	if err := os.Remove(m.to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	note := m.want
	note.Size = info.Size()
	text, err := json.MarshalIndent(note, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.note, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part.Name(), m.to)
}
