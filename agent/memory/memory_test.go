package memory

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMapIsPageAlignedZeroAndWritable(t *testing.T) {
	m, err := Map("test", 3*os.Getpagesize()+5)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := m.Bytes()
	if len(b) != 3*os.Getpagesize()+5 {
		t.Fatalf("%d bytes", len(b))
	}
	if p := uintptr(unsafe.Pointer(&b[0])); p%uintptr(os.Getpagesize()) != 0 {
		t.Errorf("starts at %#x", p)
	}
	for i := range b {
		if b[i] != 0 {
			t.Fatalf("byte %d is %d", i, b[i])
		}
		b[i] = byte(i)
	}
}

// Another mapping of the descriptor sees the same bytes: that is what shared memory is for.
func TestDescriptorMapsTheSameBytes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no descriptor on " + runtime.GOOS)
	}
	m, err := Map("test", 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	other, err := unix.Mmap(m.FD(), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(other)
	m.Bytes()[100] = 42
	if other[100] != 42 {
		t.Errorf("the other mapping sees %d", other[100])
	}
}

func TestCloseTwice(t *testing.T) {
	m, err := Map("test", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if m.Bytes() != nil || m.FD() != -1 {
		t.Error("bytes or descriptor are left after Close")
	}
}

func TestMapRefusesNoSize(t *testing.T) {
	for _, size := range []int{0, -1} {
		if m, err := Map("test", size); err == nil {
			m.Close()
			t.Errorf("size %d is accepted", size)
		}
	}
}

// A slice of a mapping, wherever it begins, finds the mapping, and the descriptor is the
// caller's own.
func TestShareFindsTheMapping(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no descriptor on " + runtime.GOOS)
	}
	others, err := Map("others", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	m, err := Map("test", 8192)
	if err != nil {
		t.Fatal(err)
	}
	b := m.Bytes()
	b[4096+7] = 42
	fd, offset, err := Share(b[4096+7:])
	if err != nil || offset != 4096+7 || fd == m.FD() {
		t.Fatalf("descriptor %d, offset %d, %v", fd, offset, err)
	}
	defer unix.Close(fd)
	if _, _, err := Share(b[:8192:8192]); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	var got [1]byte
	if _, err := unix.Pread(fd, got[:], int64(offset)); err != nil || got[0] != 42 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestShareRefusesOtherMemory(t *testing.T) {
	m, err := Map("test", 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := m.Bytes()
	past := unsafe.Slice(&b[0], 4097)
	for name, mem := range map[string][]byte{"heap": make([]byte, 16), "nothing": nil, "empty": b[:0], "past the end": past} {
		if _, _, err := Share(mem); !errors.Is(err, ErrNotMapped) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever has a descriptor can neither write nor make the memory shorter, by whatever way.
func TestOthersCannotWrite(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no descriptor on " + runtime.GOOS)
	}
	m, err := Map("test", 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", m.FD()), unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	for _, fd := range []int{m.FD(), again} {
		if b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			unix.Munmap(b)
			t.Error("it can be mapped to be written")
		}
		if _, err := unix.Pwrite(fd, []byte{1}, 0); err == nil {
			t.Error("it can be written")
		}
		for _, size := range []int64{0, 8192} {
			if err := unix.Ftruncate(fd, size); err == nil {
				t.Errorf("it can be made %d bytes long", size)
			}
		}
	}
	if b, err := unix.Mmap(again, 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		t.Error(err)
	} else if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		t.Error("a mapping to read can be made one to write")
	}
	m.Bytes()[1] = 1
}

// A mapping of more than a large page is whole and zero, in whatever pages.
func TestMapLarge(t *testing.T) {
	m, err := Map("large", 5<<20+3)
	if err != nil {
		t.Fatal(err)
	}
	b := m.Bytes()
	if len(b) != 5<<20+3 || cap(b) != len(b) || b[len(b)-1] != 0 {
		t.Errorf("%d bytes, %d with what follows", len(b), cap(b))
	}
	b[len(b)-1] = 1
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
