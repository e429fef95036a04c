//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// gate is what llama.cpp calls for each operation of a context's graphs: before, to ask whether what
// follows must wait for a look at its result, and once that is there. A graph has hundreds of
// operations, and a call into Go takes a microsecond or two, which was a tenth of the time of a
// token. So llama.cpp calls gateEntry, some instructions that answer no themselves where the
// operation is not the one that is looked at.
type gate struct {
	op   int32   // the operation that is looked at, or closed
	next uintptr // looked
	look func(t *tensor, ask bool) bool
}

// closed is no operation.
const closed = -1

// gateEntry is the address of the instructions, for which the gate is the user data.
var gateEntry uintptr

// looked is one callback for all contexts: those that there can be in a process are counted, and are
// never given back.
var looked = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(t *tensor, ask bool, g *gate) uintptr {
		if g.look(t, ask) {
			return 1
		}
		return 0
	})
})

func newGate(look func(t *tensor, ask bool) bool) *gate {
	return &gate{op: closed, next: looked(), look: look}
}

// data is the gate as llama.cpp is given it; whoever does must keep the gate.
func (g *gate) data() uintptr { return uintptr(unsafe.Pointer(g)) }
