package memory

import (
	"errors"

	"golang.org/x/sys/unix"
)

// hugePage is the size of the large pages that are asked for. The default size might be much
// larger than a pool.
const hugePage = 2 << 20

// Seals are what a mapping's descriptor is sealed with: another process can neither make it
// shorter, so that touching it would kill us, nor write to it, whatever it does with it.
const Seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// mapShared maps at least size bytes, in large pages where the machine has them set aside.
func mapShared(name string, size int) ([]byte, int, error) {
	if size >= hugePage {
		rounded := (size + hugePage - 1) &^ (hugePage - 1)
		if b, fd, err := mapHuge(name, rounded); err == nil {
			return b, fd, nil
		}
	}
	b, fd, err := mapFile(name, size, 0)
	if err != nil {
		return nil, -1, err
	}
	if size >= hugePage {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // small pages do as well
	}
	return b, fd, nil
}

// mapHuge fails where there are no large pages, or we may not have them.
func mapHuge(name string, size int) ([]byte, int, error) {
	b, fd, err := mapFile(name, size, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err != nil {
		return nil, -1, err
	}
	// A control group's limit shows only when a page is touched, by a signal that would end us;
	// this way it shows as an error.
	if err := unix.Madvise(b, unix.MADV_POPULATE_WRITE); err != nil {
		return nil, -1, errors.Join(err, unmap(b, fd))
	}
	return b, fd, nil
}

func mapFile(name string, size, flags int) ([]byte, int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
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
	// Our own mapping stays writable: it is older than the seal. A kernel older than the seal
	// (5.1) gives memory as good, which who wants it sealed refuses to share.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, Seals)
	return b, fd, nil
}

func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

func unmap(b []byte, fd int) error {
	return errors.Join(unix.Munmap(b), unix.Close(fd))
}
