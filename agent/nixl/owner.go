//go:build linux && (amd64 || arm64) && nixl

package nixl

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

// owner is the one goroutine, on a thread of its own, that calls NIXL.
type owner struct {
	a *Agent

	mu     sync.Mutex
	calls  []func()
	ended  bool // takes no more calls
	wake   chan struct{}
	exited chan struct{}

	// The rest is of the goroutine.
	name  string
	made  int     // outlets, so far
	spare *outlet // the next peer's, made at the start to see whether one can be made
	peers map[wire.Life]*peer
	ops   []*op
	idle  int // rounds in which nothing moved
}

func (w *owner) init(a *Agent) {
	w.a, w.wake, w.exited = a, make(chan struct{}, 1), make(chan struct{})
	w.peers = map[wire.Life]*peer{}
	go w.run()
}

// call queues a call. It says false when the owner takes no more.
func (w *owner) call(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.calls = append(w.calls, f)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

// start makes a first outlet and waits for it.
func (w *owner) start(name string) error {
	done := make(chan error, 1)
	w.call(func() {
		var err error
		w.name = name
		w.spare, err = w.open()
		done <- err
	})
	return <-done
}

func (w *owner) open() (*outlet, error) {
	w.made++
	return openOutlet(w.a.lib, &w.a.o, fmt.Sprintf("%s-%d", w.name, w.made), w.a.regions)
}

// end waits until all that goes on has ended, and NIXL's agents are gone.
func (w *owner) end() {
	w.mu.Lock()
	if !w.ended {
		w.ended = true
		close(w.wake)
	}
	w.mu.Unlock()
	<-w.exited
}

func (w *owner) take() (calls []func(), ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls, w.calls = w.calls, nil
	return calls, w.ended
}

// The pace of asking after what goes on: NIXL has nothing to wait for. At first without a pause,
// as most parts take microseconds, then ever more seldom.
const (
	eager   = 200
	minRest = 10 * time.Microsecond
	maxRest = 200 * time.Microsecond
)

func (w *owner) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(w.exited)
	for {
		calls, ended := w.take()
		for _, f := range calls {
			f()
		}
		moved := w.advance()
		if ended && len(w.ops) == 0 && len(calls) == 0 {
			if w.spare != nil {
				w.shut(w.spare)
			}
			return
		}
		w.rest(len(calls) > 0 || moved)
	}
}

func (w *owner) rest(busy bool) {
	switch {
	case busy:
		w.idle = 0
		return
	case len(w.ops) == 0:
		<-w.wake // closed at the end
		return
	}
	if w.idle++; w.idle < eager {
		runtime.Gosched()
		return
	}
	t := time.NewTimer(min(maxRest, minRest*time.Duration(w.idle-eager+1)))
	defer t.Stop()
	if w.over() {
		<-t.C // the channel is closed and would not wait
		return
	}
	select {
	case <-w.wake:
	case <-t.C:
	}
}

func (w *owner) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// peer is a life with a control connection.
type peer struct {
	hello wire.Hello
	addrs []string // that Connect was given, until up
	out   *outlet
	name  string // in NIXL, once its card is loaded
	card  card
	up    bool
	lost  *agent.PeerLost // waits until the last transfer with it has ended
	lists lists           // of its memory
}

// greet gives our card to a new peer. One that is up is said to be up again.
func (w *owner) greet(e agent.PeerUp) {
	p := w.peers[e.Hello.Life]
	if p != nil && p.up {
		w.a.events.Push(e)
		return
	}
	if p != nil {
		p.addrs = append(p.addrs, e.Addr)
		return
	}
	p = &peer{hello: e.Hello, addrs: []string{e.Addr}, out: w.spare}
	w.peers[e.Hello.Life] = p
	var err error
	if w.spare = nil; p.out == nil {
		if p.out, err = w.open(); err != nil {
			w.a.o.Control.Drop(e.Hello.Life, err)
			return
		}
	}
	for _, b := range pieces(saysBegin, saysCard, p.out.card.encode()) {
		w.a.o.Control.Notify(e.Hello.Life, b)
	}
}

// deal takes a peer's card. The peer is up then.
func (w *owner) deal(life wire.Life, c card, err error) {
	p := w.peers[life]
	if p == nil || p.lost != nil {
		return
	}
	if err == nil && (p.up || p.out == nil) {
		err = fmt.Errorf("%w: it is not awaited", errCard)
	}
	if err == nil {
		p.name, err = p.out.load(c.meta)
	}
	if err == nil && !strings.HasPrefix(p.name, life.String()+"-") {
		err = fmt.Errorf("%w: it is of another life", errCard)
	}
	if err != nil {
		w.a.o.Control.Drop(life, err)
		return
	}
	p.card, p.up = c, true
	for _, addr := range p.addrs {
		w.a.events.Push(agent.PeerUp{Addr: addr, Hello: p.hello})
	}
	p.addrs = nil
}

func (w *owner) notice(life wire.Life, payload []byte) {
	if p := w.peers[life]; p != nil && p.up && p.lost == nil {
		w.a.events.Push(agent.Notice{Peer: life, Payload: payload})
	}
}

// lost ends a peer: what is in flight is given up, and PeerLost follows when nothing of it can
// move any more.
func (w *owner) lost(e agent.PeerLost) {
	p := w.peers[e.Peer]
	if p == nil || p.lost != nil {
		return
	}
	p.lost = &e
	for _, o := range w.ops {
		if o.peer == p {
			o.fail(agent.Lost(e.Err))
		}
	}
	w.bury(e.Peer, p)
}

// shut closes an outlet. One that NIXL keeps is logged: its peer may go on writing.
func (w *owner) shut(out *outlet) {
	if err := out.close(); err != nil {
		w.a.o.Log.Error("NIXL did not let go of the memory", "err", err)
	}
}

// bury forgets a lost peer once none of its transfers is in flight.
func (w *owner) bury(life wire.Life, p *peer) {
	for _, o := range w.ops {
		if o.peer == p {
			return
		}
	}
	if p.out != nil {
		p.lists.release(w.a.lib, p.out.agent)
		w.shut(p.out)
	}
	delete(w.peers, life)
	if p.up {
		w.a.events.Push(*p.lost)
		return
	}
	for _, addr := range p.addrs {
		if addr != "" {
			w.a.connectFailed(addr, p.lost.Err)
		}
	}
}
