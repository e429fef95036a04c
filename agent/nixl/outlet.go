//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"fmt"
	"runtime"
	"unsafe"

	"kvferry/agent/cut"
)

// outlet is one of NIXL's agents with its backend, and all regions registered with it. Each peer
// has one of its own, because to destroy it is the one thing after which nothing of that peer can
// land any more: NIXL goes on taking a peer's bytes after it was told to forget the peer.
type outlet struct {
	lib                          *library
	agent, backend, options, reg uintptr
	card                         card
	lists                        lists // of our own memory
}

// progressDelay is how long NIXL's thread waits, in microseconds, until it looks again. Without a wait it
// takes a core of its own, idle or not, from the threads that copy.
const progressDelay = 100

// openOutlet makes one. What it made it takes back when it fails.
func openOutlet(lib *library, o *Options, name string, regions cut.Regions) (_ *outlet, err error) {
	out := &outlet{lib: lib}
	defer func() {
		if err != nil {
			_ = out.close() // the first error says more
		}
	}()
	cfg := agentConfig{progressThread: true, progressDelay: progressDelay, threadSync: 1, workers: 1}
	if err := failed("agent", lib.createAgent(name, unsafe.Pointer(&cfg), &out.agent)); err != nil {
		return nil, err
	}
	runtime.KeepAlive(&cfg)
	if err := out.openBackend(o); err != nil {
		return nil, err
	}
	if err := out.register(regions); err != nil {
		return nil, err
	}
	var data unsafe.Pointer
	var n uintptr
	if err := failed("metadata", lib.localMD(out.agent, &data, &n)); err != nil {
		return nil, err
	}
	out.card.meta = append([]byte{}, unsafe.Slice((*byte)(data), n)...)
	free(data)
	return out, nil
}

func (out *outlet) openBackend(o *Options) error {
	var params uintptr
	if err := failed("parameters", out.lib.createParams(&params)); err != nil {
		return err
	}
	defer out.lib.destroyParams(params)
	for k, v := range o.Params {
		if err := failed("parameter "+k, out.lib.addParam(params, k, v)); err != nil {
			return err
		}
	}
	if err := failed("backend "+o.Backend, out.lib.createBackend(out.agent, o.Backend, params, &out.backend)); err != nil {
		return err
	}
	if err := failed("options", out.lib.createOptions(&out.options)); err != nil {
		return err
	}
	return failed("options", out.lib.addBackend(out.options, out.backend))
}

func (out *outlet) register(regions cut.Regions) error {
	var reg uintptr
	if err := failed("list of memory", out.lib.createReg(0, &reg)); err != nil {
		return err
	}
	for _, mem := range regions {
		at := address(mem)
		out.card.places = append(out.card.places, place{uint64(at), uint64(len(mem))})
		if err := failed("list of memory", out.lib.addReg(reg, at, uintptr(len(mem)), 0, nil, 0)); err != nil {
			out.lib.destroyReg(reg)
			return err
		}
	}
	if err := failed("register memory", out.lib.register(out.agent, reg, out.options)); err != nil {
		out.lib.destroyReg(reg)
		return err
	}
	out.reg = reg
	return nil
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// load takes a peer's metadata and gives its name.
func (out *outlet) load(meta []byte) (string, error) {
	var name unsafe.Pointer
	status := out.lib.loadRemoteMD(out.agent, unsafe.Pointer(&meta[0]), uintptr(len(meta)), &name)
	if err := failed("load the peer's metadata", status); err != nil {
		return "", err
	}
	defer free(name)
	return cString(name), nil
}

// close gives everything back. After it nothing of the peer can land.
func (out *outlet) close() (err error) {
	if out.agent == 0 {
		return nil
	}
	out.lists.release(out.lib, out.agent)
	if out.reg != 0 {
		err = failed("deregister memory", out.lib.deregister(out.agent, out.reg, out.options))
		out.lib.destroyReg(out.reg)
	}
	if out.options != 0 {
		out.lib.destroyOptions(out.options)
	}
	if gone := failed("destroy the agent", out.lib.destroyAgent(out.agent)); gone != nil {
		return fmt.Errorf("%w: its memory may still be written", gone)
	}
	out.agent = 0
	return err
}
