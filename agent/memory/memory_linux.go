package memory

import (
	"errors"

	"golang.org/x/sys/unix"
)

func mapShared(name string, size int) ([]byte, int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, -1, err
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, -1, errors.Join(err, unix.Close(fd))
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, -1, errors.Join(err, unix.Close(fd))
	}
	return b, fd, nil
}

func unmap(b []byte, fd int) error {
	return errors.Join(unix.Munmap(b), unix.Close(fd))
}
