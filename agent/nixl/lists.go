//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"slices"
	"unsafe"

	"kvferry/agent"
)

// lists are the descriptor lists that NIXL has prepared. A list is not changed after it was made,
// so that where it lies in our memory names it, as long as we keep it.
type lists struct {
	prepared []prepared   // the one that was used last is the last one
	once     []agent.List // were used once, the last ones last: most lists are not used again
}

type prepared struct {
	list   agent.List
	handle uintptr // 0 is a list that NIXL cannot prepare, as it names what is not there
}

const (
	// worth is how long a list is that is prepared: a shorter one is named anew in each transfer.
	worth = 64
	// most is how many lists of a peer stay prepared, and how many are remembered that were used once.
	most = 64
)

func same(a, b agent.List) bool {
	return unsafe.SliceData(a) == unsafe.SliceData(b) && len(a) == len(b)
}

// again says whether a list was used before, and remembers it.
func (ls *lists) again(list agent.List) bool {
	if slices.ContainsFunc(ls.once, func(l agent.List) bool { return same(l, list) }) {
		return true
	}
	if len(ls.once) == most {
		ls.once = append(ls.once[:0], ls.once[1:]...)
	}
	ls.once = append(ls.once, list)
	return false
}

// prepared gives NIXL's handle of a list, or false where it is not worth one.
func (w *owner) prepared(out *outlet, ls *lists, name string, list agent.List, where func(agent.Desc) uint64) (uintptr, bool) {
	if len(list) < worth {
		return 0, false
	}
	for i, p := range ls.prepared {
		if same(p.list, list) {
			last := len(ls.prepared) - 1
			copy(ls.prepared[i:], ls.prepared[i+1:])
			ls.prepared[last] = p
			return p.handle, p.handle != 0
		}
	}
	if !ls.again(list) || len(ls.prepared) == most && w.flying() { // the one to go may be in use
		return 0, false
	}
	p := prepared{list: list, handle: out.prepare(name, list, where)}
	if len(ls.prepared) == most {
		ls.prepared[0].release(w.a.lib, out.agent)
		ls.prepared = append(ls.prepared[:0], ls.prepared[1:]...)
	}
	ls.prepared = append(ls.prepared, p)
	return p.handle, p.handle != 0
}

func (w *owner) flying() bool {
	return slices.ContainsFunc(w.ops, func(o *op) bool { return len(o.flights) > 0 })
}

func (out *outlet) prepare(name string, list agent.List, where func(agent.Desc) uint64) (handle uintptr) {
	l := out.lib
	var x uintptr
	if l.createList(0, &x) != statusOK {
		return 0
	}
	defer l.destroyList(x)
	for _, d := range list {
		at := where(d)
		if at == 0 || d.Length == 0 {
			return 0
		}
		l.addDesc(x, uintptr(at), uintptr(d.Length), 0)
	}
	if l.prepare(out.agent, name, x, &handle, out.options) != statusOK {
		return 0
	}
	return handle
}

func (p prepared) release(l *library, a uintptr) {
	if p.handle != 0 {
		l.releaseList(a, p.handle)
	}
}

func (ls *lists) release(l *library, a uintptr) {
	for _, p := range ls.prepared {
		p.release(l, a)
	}
	ls.prepared, ls.once = nil, nil
}
