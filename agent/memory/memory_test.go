package memory

import (
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
