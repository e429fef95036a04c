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
	prepared []prepared // the one that was used last is the last one
}

type prepared struct {
	list   agent.List
	handle uintptr // 0 is a list that NIXL cannot prepare, as it names what is not there
}

const (
	// worth is how long a list is that is prepared: a shorter one is named anew in each transfer.
	worth = 64
	// most is how many lists of a peer stay prepared.
	most = 64
)

// prepared gives NIXL's handle of a list, or false where it is not worth one.
func (w *owner) prepared(out *outlet, ls *lists, name string, list agent.List, where func(agent.Desc) uint64) (uintptr, bool) {
	if len(list) < worth {
		return 0, false
	}
	for i, p := range ls.prepared {
		if unsafe.SliceData(p.list) == unsafe.SliceData(list) && len(p.list) == len(list) {
			last := len(ls.prepared) - 1
			copy(ls.prepared[i:], ls.prepared[i+1:])
			ls.prepared[last] = p
			return p.handle, p.handle != 0
		}
	}
	if len(ls.prepared) == most && w.flying() {
		return 0, false // the one to go may be in use
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
	ls.prepared = nil
}
