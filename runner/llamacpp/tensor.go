//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"
)

// tensor is a struct ggml_tensor of ggml, of the version that is known.
type tensor struct {
	kind   int32
	buffer unsafe.Pointer
	ne     [4]int64  // elements of each dimension
	nb     [4]uint64 // bytes from one to the next
	//lint:ignore U1000 gateEntry reads it
	op      int32
	_       [16]int32 // what the operation is told
	_       int32     // flags
	src     [10]*tensor
	viewSrc *tensor
	_       uint64 // where in viewSrc it begins
	data    unsafe.Pointer
	name    [64]byte
	_       [2]uint64 // what a backend keeps, and room
}

// What the numbers of ggml are: that of the operation which writes rows at places that another tensor
// names, and the bytes that ggml has before a tensor.
const (
	opSetRows    = 42
	objectHeader = 32
)

// title is the tensor's name.
func (t *tensor) title() string {
	name, _, _ := bytes.Cut(t.name[:], []byte{0})
	return string(name)
}

// ggml are the library's own answers about tensors, against which ours are checked.
type ggml struct{ isHost ffi.Fun }

// openGGML checks that a tensor is what we take it for before one is read.
func openGGML(dir string) (*ggml, error) {
	lib, err := loader.LoadLibrary(dir, "ggml-base")
	if err != nil {
		return nil, err
	}
	overhead, err := lib.Prep("ggml_tensor_overhead", &ffi.TypeUint64)
	if err != nil {
		return nil, err
	}
	opName, err := lib.Prep("ggml_op_name", &ffi.TypePointer, &ffi.TypeSint32)
	if err != nil {
		return nil, err
	}
	isHost, err := lib.Prep("ggml_backend_buffer_is_host", &ffi.TypeUint8, &ffi.TypePointer)
	if err != nil {
		return nil, err
	}
	var size uint64
	overhead.Call(unsafe.Pointer(&size))
	if want := uint64(objectHeader + unsafe.Sizeof(tensor{})); size != want {
		return nil, fmt.Errorf("a tensor takes %d bytes, want %d", size, want)
	}
	var name *byte
	op := int32(opSetRows)
	opName.Call(unsafe.Pointer(&name), unsafe.Pointer(&op))
	if got := cString(name); got != "SET_ROWS" {
		return nil, fmt.Errorf("operation %d is %q", op, got)
	}
	return &ggml{isHost}, nil
}

// host says whether a tensor's data is in this process's memory.
func (g *ggml) host(t *tensor) bool {
	if t.buffer == nil || t.data == nil {
		return false
	}
	var yes ffi.Arg // which a smaller result is widened to
	g.isHost.Call(unsafe.Pointer(&yes), unsafe.Pointer(&t.buffer))
	return byte(yes) != 0
}

// numbers are the elements of a tensor of one dimension of 64-bit integers.
func (t *tensor) numbers() ([]int64, error) {
	if t.kind != int32(llama.GGMLTypeI64) || t.ne[1] != 1 || t.ne[2] != 1 || t.ne[3] != 1 || t.nb[0] != 8 {
		return nil, fmt.Errorf("tensor %q has %v numbers of type %d, %v bytes apart", t.title(), t.ne, t.kind, t.nb)
	}
	return unsafe.Slice((*int64)(t.data), t.ne[0]), nil
}
