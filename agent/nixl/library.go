//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is NIXL's interface for C, as far as it is used. Handles are uintptr; every function
// gives a status. All of them are called by the one goroutine that owns the agent.
type library struct {
	createAgent    func(name string, cfg unsafe.Pointer, agent *uintptr) int32
	destroyAgent   func(agent uintptr) int32
	localMD        func(agent uintptr, data *unsafe.Pointer, n *uintptr) int32
	loadRemoteMD   func(agent uintptr, data unsafe.Pointer, n uintptr, name *unsafe.Pointer) int32
	createParams   func(params *uintptr) int32
	addParam       func(params uintptr, key, value string) int32
	destroyParams  func(params uintptr) int32
	createBackend  func(agent uintptr, name string, params uintptr, backend *uintptr) int32
	createOptions  func(o *uintptr) int32
	destroyOptions func(o uintptr) int32
	addBackend     func(o, backend uintptr) int32
	createReg      func(kind int32, list *uintptr) int32
	addReg         func(list, addr, n uintptr, device uint64, meta unsafe.Pointer, metaBytes uintptr) int32
	destroyReg     func(list uintptr) int32
	register       func(agent, list, o uintptr) int32
	deregister     func(agent, list, o uintptr) int32
	createList     func(kind int32, list *uintptr) int32
	addDesc        func(list, addr, n uintptr, device uint64) int32
	destroyList    func(list uintptr) int32
	prepare        func(agent uintptr, peer string, list uintptr, prepared *uintptr, o uintptr) int32
	releaseList    func(agent, prepared uintptr) int32
	makeRequest    func(agent uintptr, op int32, local uintptr, li *int32, ln uintptr, remote uintptr, ri *int32, rn uintptr, req *uintptr, o uintptr) int32
	createRequest  func(agent uintptr, op int32, local, remote uintptr, peer string, req *uintptr, o uintptr) int32
	post           func(agent, req, o uintptr) int32
	status         func(agent, req uintptr) int32
	release        func(agent, req uintptr) int32
	destroyRequest func(req uintptr) int32
}

// symbols are the functions' names behind nixl_capi_.
func (l *library) symbols() map[string]any {
	return map[string]any{
		"create_configured_agent": &l.createAgent, "destroy_agent": &l.destroyAgent,
		"get_local_md": &l.localMD, "load_remote_md": &l.loadRemoteMD,
		"create_params": &l.createParams, "params_add": &l.addParam, "destroy_params": &l.destroyParams,
		"create_backend": &l.createBackend, "create_opt_args": &l.createOptions,
		"destroy_opt_args": &l.destroyOptions, "opt_args_add_backend": &l.addBackend,
		"create_reg_dlist": &l.createReg, "reg_dlist_add_desc": &l.addReg, "destroy_reg_dlist": &l.destroyReg,
		"register_mem": &l.register, "deregister_mem": &l.deregister,
		"create_xfer_dlist": &l.createList, "xfer_dlist_add_desc": &l.addDesc, "destroy_xfer_dlist": &l.destroyList,
		"prep_xfer_dlist": &l.prepare, "release_xfer_dlist_handle": &l.releaseList,
		"make_xfer_req": &l.makeRequest, "create_xfer_req": &l.createRequest, "post_xfer_req": &l.post,
		"get_xfer_status": &l.status, "release_xfer_req": &l.release, "destroy_xfer_req": &l.destroyRequest,
	}
}

var loaded struct {
	sync.Mutex
	file string
	lib  *library
}

// environment is what UCX is told unless the user tells it otherwise. Without cma a peer of this
// host moves bytes by a message that our own process takes, so that nothing of a peer can land
// once its connection is closed; with it the peer's process writes our memory by itself, at any
// time until it ends. (Processes of one host have agent/shm, which is faster.)
var environment = map[string]string{
	"UCX_TLS":                  "^cma,knem,xpmem",
	"UCX_LOG_LEVEL":            "fatal",
	"UCX_WARN_UNUSED_ENV_VARS": "n",
	"NIXL_LOG_LEVEL":           "FATAL",
}

// open loads the library, once.
func open(file string) (*library, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.lib != nil {
		if loaded.file != file {
			return nil, fmt.Errorf("NIXL of %s is in use; this process cannot load %s beside it", loaded.file, file)
		}
		return loaded.lib, nil
	}
	for k, v := range environment {
		if _, ok := os.LookupEnv(k); !ok {
			if err := os.Setenv(k, v); err != nil {
				return nil, err
			}
		}
	}
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("NIXL: %w", err)
	}
	l := &library{}
	if err := bind(purego.RTLD_DEFAULT, "free", &freeC); err != nil {
		return nil, err
	}
	for name, f := range l.symbols() {
		if err := bind(handle, "nixl_capi_"+name, f); err != nil {
			return nil, fmt.Errorf("NIXL in %s: %w", file, err)
		}
	}
	loaded.file, loaded.lib = file, l
	return l, nil
}

// bind looks a function up. One that is missing is another NIXL than >= 1.0, < 2.
func bind(handle uintptr, name string, f any) error {
	addr, err := purego.Dlsym(handle, name)
	if err != nil {
		return fmt.Errorf("it has no %s, so it is not of a version >= 1.0, < 2", name)
	}
	purego.RegisterFunc(f, addr)
	return nil
}

// The statuses that are not errors.
const (
	statusOK      = 0
	statusGoingOn = 1
)

// failed is a status as an error. NIXL says no more of it than the number.
func failed(what string, status int32) error {
	if status == statusOK {
		return nil
	}
	names := map[int32]string{-1: "a wrong parameter", -2: "the backend failed, or the peer is gone", -3: "a wrong state", -4: "an exception"}
	return fmt.Errorf("NIXL: %s: %s (status %d)", what, names[status], status)
}

// agentConfig is nixl_capi_agent_config_t.
type agentConfig struct {
	progressThread, listenThread bool
	_                            [2]byte
	listenPort                   int32
	threadSync                   uint32
	workers                      uint32
	progressDelay                uint64 // microseconds
	listenDelay                  uint64
	telemetry                    bool
	_                            [7]byte
}

// libc's own, for what NIXL gives away.
var freeC func(unsafe.Pointer)

func free(p unsafe.Pointer) { freeC(p) }

func cString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
