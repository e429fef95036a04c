//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"kvferry/agent/cut"
	"kvferry/agent/memory"
)

// hugetlbfs is what statfs says of large pages that were set aside.
const hugetlbfs = 0x958458f6

// own is our registered memory, and what a peer needs to map it.
type own struct {
	regions cut.Regions
	kit     kit
	files   []int     // of the kit's mappings
	bases   []uintptr // where they lie here
}

// add registers memory, which must be memory.Map's.
func (o *own) add(mem []byte) error {
	fd, offset, err := memory.Share(mem)
	if err != nil {
		return err
	}
	if len(o.regions) == maxRegions {
		return errors.Join(fmt.Errorf("more than %d regions", maxRegions), unix.Close(fd))
	}
	i, err := o.mapping(fd, uintptr(unsafe.Pointer(&mem[0]))-uintptr(offset))
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	o.regions = append(o.regions, mem)
	o.kit.regions = append(o.kit.regions, kitRange{mapping: uint32(i), offset: offset, length: uint64(len(mem))})
	return nil
}

// mapping is the number of the mapping at base, whose descriptor is kept, or closed where the
// mapping is known.
func (o *own) mapping(fd int, base uintptr) (int, error) {
	for i, b := range o.bases {
		if b == base {
			return i, unix.Close(fd)
		}
	}
	if len(o.files) == maxMappings {
		return 0, fmt.Errorf("more than %d mappings", maxMappings)
	}
	size, err := sealedSize(fd)
	if err != nil {
		return 0, err
	}
	o.kit.mappings = append(o.kit.mappings, size)
	o.files, o.bases = append(o.files, fd), append(o.bases, base)
	return len(o.files) - 1, nil
}

func (o *own) close() {
	for _, fd := range o.files {
		_ = unix.Close(fd) // it was never written
	}
	o.files = nil
}

// sealedSize is how large a memory file is, of which nobody can cut anything off.
func sealedSize(fd int) (uint64, error) {
	const need = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("the descriptor is of no memory that can be sealed: %w", err)
	}
	if seals&need != need {
		return 0, fmt.Errorf("the memory is not sealed (%#x of %#x): shared memory needs Linux 5.1", seals&need, need)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("fstat: %w", err)
	}
	return uint64(st.Size), nil
}

// mapPeer maps a peer's memory, of at least size bytes, to be read.
func mapPeer(fd int, size uint64) ([]byte, error) {
	have, err := sealedSize(fd)
	if err != nil {
		return nil, err
	}
	if size == 0 || size > have || have > math.MaxInt {
		return nil, fmt.Errorf("a mapping of %d bytes, which has %d", size, have)
	}
	b, err := unix.Mmap(fd, 0, int(have), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	if err := populate(fd, b); err != nil {
		return nil, errors.Join(err, unix.Munmap(b))
	}
	return b, nil
}

// populate makes sure that memory of large pages is there: where it is not, touching it would
// end us if the machine has no more of them.
func populate(fd int, b []byte) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return fmt.Errorf("fstatfs: %w", err)
	}
	if st.Type != hugetlbfs {
		return nil
	}
	if err := unix.Madvise(b, unix.MADV_POPULATE_READ); err != nil {
		return fmt.Errorf("the peer's large pages are not there: %w", err)
	}
	return nil
}

// peerMemory is what we have mapped of a peer, and its bell.
type peerMemory struct {
	door    door
	bell    int
	regions cut.Regions
	maps    [][]byte
}

// take maps what a kit and its descriptors give. It closes the descriptors but for the bell's.
func take(k *kit, files []int) (p *peerMemory, err error) {
	defer func() {
		closeAll(files)
		if err != nil && p != nil {
			p.release()
			p = nil
		}
	}()
	if len(files) != kitFiles+len(k.mappings) {
		return nil, fmt.Errorf("%d descriptors came with %d mappings", len(files), len(k.mappings))
	}
	p = &peerMemory{bell: -1}
	for i, size := range append([]uint64{doorBytes}, k.mappings...) {
		fd := files[0]
		if i > 0 {
			fd = files[kitFiles+i-1]
		}
		b, err := mapPeer(fd, size)
		if err != nil {
			return p, fmt.Errorf("the peer's mapping %d: %w", i, err)
		}
		p.maps = append(p.maps, b)
	}
	if err := checkBell(files[1]); err != nil {
		return p, err
	}
	p.door = door{p.maps[0]}
	for _, r := range k.regions {
		p.regions = append(p.regions, p.maps[1+r.mapping][r.offset:r.offset+r.length])
	}
	p.bell, files[1] = files[1], -1
	return p, nil
}

// closeAll closes descriptors that are mapped, or of no use. -1 is one that was kept.
func closeAll(files []int) {
	for _, fd := range files {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written to it
		}
	}
}

// checkBell refuses a descriptor that could hold up who rings it.
func checkBell(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_NONBLOCK == 0 {
		err = errors.New("it blocks")
	}
	if err != nil {
		return fmt.Errorf("the peer's bell: %w", err)
	}
	return nil
}

// ring rings the peer's bell. A bell that rings already is as good.
func (p *peerMemory) ring() error {
	one := [8]byte{1}
	for {
		_, err := unix.Write(p.bell, one[:])
		switch err {
		case nil, unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("the peer's bell: %w", err)
		}
	}
}

func (p *peerMemory) release() {
	for _, b := range p.maps {
		_ = unix.Munmap(b) // it was mapped
	}
	if p.bell >= 0 {
		_ = unix.Close(p.bell) // nothing waits in it
	}
	p.maps, p.bell = nil, -1
}
