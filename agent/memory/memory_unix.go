//go:build unix && !linux

package memory

import "golang.org/x/sys/unix"

func mapShared(_ string, size int) ([]byte, int, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	return b, -1, err
}

func unmap(b []byte, _ int) error { return unix.Munmap(b) }

func duplicate(int) (int, error) { return -1, ErrNoDescriptor }
