// Package memory maps memory outside the Go heap for block pools: its address never
// changes, the collector does not scan it, and where the system can (Linux) it has a
// descriptor that another process can map, but neither write nor shrink.
package memory

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// Memory is one mapping. Its bytes start at a page and are zero at first.
type Memory struct {
	mu    sync.Mutex
	bytes []byte
	whole []byte // what is mapped: bytes, and what a last large page has beyond them
	fd    int
}

// mapped are the mappings that are open, so that Share can find the one that holds a slice.
var mapped struct {
	sync.Mutex
	all map[*Memory]struct{}
}

// Map maps size bytes. The name is for the system's own tools only; it need not be unique.
func Map(name string, size int) (*Memory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("memory: map %s: size %d is not positive", name, size)
	}
	b, fd, err := mapShared(name, size)
	if err != nil {
		return nil, fmt.Errorf("memory: map %s, %d bytes: %w", name, size, err)
	}
	m := &Memory{bytes: b[:size:size], whole: b, fd: fd}
	mapped.Lock()
	defer mapped.Unlock()
	if mapped.all == nil {
		mapped.all = make(map[*Memory]struct{})
	}
	mapped.all[m] = struct{}{}
	return m, nil
}

// The errors of Share.
var (
	// ErrNotMapped: the memory is not of Map, so no other process could map it.
	ErrNotMapped = errors.New("memory: the bytes are not within a mapping of this package")
	// ErrNoDescriptor: the system gives no descriptor of a mapping.
	ErrNoDescriptor = errors.New("memory: the mapping has no descriptor on this system")
)

// Share gives a new descriptor of the mapping that holds mem, which is the caller's to close,
// and where in the mapping mem begins.
func Share(mem []byte) (fd int, offset uint64, err error) {
	mapped.Lock()
	defer mapped.Unlock()
	for m := range mapped.all {
		if offset, ok := m.offset(mem); ok {
			fd, err := m.duplicate()
			return fd, offset, err
		}
	}
	return -1, 0, ErrNotMapped
}

// offset is where mem begins, if all of it is within the mapping.
func (m *Memory) offset(mem []byte) (uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(mem) == 0 || len(m.bytes) == 0 {
		return 0, false
	}
	at, start := uintptr(unsafe.Pointer(&mem[0])), uintptr(unsafe.Pointer(&m.bytes[0]))
	if at < start || at-start > uintptr(len(m.bytes)) || uintptr(len(mem)) > uintptr(len(m.bytes))-(at-start) {
		return 0, false
	}
	return uint64(at - start), true
}

func (m *Memory) duplicate() (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd < 0 {
		return -1, ErrNoDescriptor
	}
	fd, err := duplicate(m.fd)
	if err != nil {
		return -1, fmt.Errorf("memory: %w", err)
	}
	return fd, nil
}

// Bytes is the whole mapping. No slice of it may be used after Close.
func (m *Memory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// FD is a descriptor of the mapping, which Memory owns, or -1 where there is none.
func (m *Memory) FD() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fd
}

// Close gives the mapping back. A second Close does nothing.
func (m *Memory) Close() error {
	mapped.Lock()
	delete(mapped.all, m)
	mapped.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes == nil {
		return nil
	}
	err := unmap(m.whole, m.fd)
	m.bytes, m.whole, m.fd = nil, nil, -1
	if err != nil {
		return fmt.Errorf("memory: unmap: %w", err)
	}
	return nil
}
