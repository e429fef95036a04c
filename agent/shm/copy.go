//go:build linux

package shm

import (
	"sync/atomic"
	"unsafe"
)

// word is the 8 bytes at an address that is a multiple of 8.
func word(b []byte, at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[at])) }

// fence keeps loads that come after it in the program from being done before those that come
// before it. A read-modify-write alone does not where it is a pair of instructions.
func fence(scratch *atomic.Uint64) {
	scratch.Add(1)
	scratch.Load()
}

// isWord says whether bytes of both sides are one word.
func isWord(to, from []byte) bool {
	return len(to) == wordBytes && (uintptr(unsafe.Pointer(&to[0]))|uintptr(unsafe.Pointer(&from[0])))%wordBytes == 0
}

// move copies. A word is loaded after whatever was copied before, and stored, whole: it may
// be the slot that says whether that is still good.
func move(to, from []byte, scratch *atomic.Uint64) {
	if len(to) <= wordBytes {
		fence(scratch)
		if isWord(to, from) {
			word(to, 0).Store(word(from, 0).Load())
			return
		}
	}
	copy(to, from)
}
