//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

// retry is how long a handshake that came in another's way waits before it begins anew.
const retry = 20 * time.Millisecond

// Connect shakes hands in the background. A ConnectFailed whose error is agent.ErrNotLocal says
// that another kind of agent may reach the peer.
func (a *Agent) Connect(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		a.connectFailed(addr, agent.ErrClosed)
	case !a.started:
		a.connectFailed(addr, errors.New("the agent is not started"))
	default:
		a.wg.Go(func() { a.connect(addr) })
	}
}

func (a *Agent) connectFailed(addr string, cause error) {
	err := &agent.Error{Op: "connect", Addr: addr, Cause: cause}
	a.log.Warn("connect failed", "addr", addr, "err", cause)
	a.events.Push(agent.ConnectFailed{Addr: addr, Err: err})
}

// connect tries until it is clear whether the peer is up.
func (a *Agent) connect(addr string) {
	ctx, cancel := context.WithTimeout(a.ctx, a.o.Handshake)
	defer cancel()
	for {
		err := a.attempt(ctx, addr)
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, errBusy) && !errors.Is(err, errSuperseded) {
			a.connectFailed(addr, a.shakeErr(ctx, err))
			return
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

// shakeErr is a handshake's error as it is told: the context's where that ended.
func (a *Agent) shakeErr(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("no handshake within %v", a.o.Handshake)
	default:
		return cause
	}
}

// attempt dials once. Nil means that PeerUp was told.
func (a *Agent) attempt(parent context.Context, addr string) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	err := a.attemptOn(ctx, cancel, addr)
	if err != nil && errors.Is(context.Cause(ctx), errSuperseded) {
		return errSuperseded
	}
	return err
}

func (a *Agent) attemptOn(ctx context.Context, cancel context.CancelCauseFunc, addr string) error {
	c, err := a.dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.drop()
	if err := c.prove(a.o.Secret.Dial, a.hello.Life); err != nil {
		return err
	}
	hello, err := a.sayHello(c)
	if err != nil {
		return err
	}
	for {
		s, taken := a.peers.take(hello.Life, true, cancel)
		if taken {
			return a.claim(s, addr, hello, c)
		}
		select {
		case <-s.settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if a.peers.ifUp(s, func() { a.events.Push(agent.PeerUp{Addr: addr, Hello: s.link.hello}) }) {
			return nil
		}
		<-s.gone
	}
}

func (a *Agent) dial(ctx context.Context, addr string) (*shake, error) {
	name, err := parseAddr(a.host, addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socketPrefix+name)
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: %w", agent.ErrNotLocal, err)
	}
	if err != nil {
		return nil, err
	}
	s := newShake(ctx, c.(*net.UnixConn))
	if err := checkUser(s.UnixConn); err != nil {
		s.drop()
		return nil, err
	}
	return s, nil
}

// sayHello exchanges hellos, from the side that dialled.
func (a *Agent) sayHello(c *shake) (wire.Hello, error) {
	if err := c.Put(wire.FrameHello, a.hello); err != nil {
		return wire.Hello{}, err
	}
	b, err := c.expect(wire.FrameHello)
	if err != nil {
		return wire.Hello{}, err
	}
	h, refuse, err := a.judge(c, b)
	if refuse != nil {
		_ = c.Put(wire.FrameRefuse, refuse) // the other end found out by itself, or hears it now
	}
	if err == nil && h.Life == a.hello.Life {
		err = agent.ErrSelf
	}
	return h, err
}

// claim asks for the link and exchanges what each side needs of the other's memory.
func (a *Agent) claim(s *slot, addr string, hello wire.Hello, c *shake) error {
	l, err := a.newLink(s, addr, hello)
	if err == nil {
		err = a.claimFor(l, c)
	}
	if err != nil {
		a.peers.release(s, func() {})
		if l != nil {
			l.release()
		}
		return err
	}
	a.linkUp(l)
	return nil
}

func (a *Agent) claimFor(l *link, c *shake) error {
	if err := c.Put(wire.FrameClaim, wire.Claim{Bulk: 1}); err != nil {
		return err
	}
	if _, err := c.expect(wire.FrameWelcome); err != nil {
		return err
	}
	if err := l.receive(c); err != nil {
		return err
	}
	if err := l.send(c); err != nil {
		return err
	}
	if _, err := c.expect(wire.FrameReady); err != nil {
		return err
	}
	return l.adopt(c)
}
