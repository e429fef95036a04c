// Package memory maps memory outside the Go heap for block pools: its address never
// changes, the collector does not scan it, and where the system can (Linux) it has a
// descriptor that another process can map.
package memory

import (
	"fmt"
	"sync"
)

// Memory is one mapping. Its bytes start at a page and are zero at first.
type Memory struct {
	mu    sync.Mutex
	bytes []byte
	fd    int
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
	return &Memory{bytes: b, fd: fd}, nil
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes == nil {
		return nil
	}
	err := unmap(m.bytes, m.fd)
	m.bytes, m.fd = nil, -1
	if err != nil {
		return fmt.Errorf("memory: unmap: %w", err)
	}
	return nil
}
