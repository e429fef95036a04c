package tcp

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

// retry is how long a handshake that came in another's way waits before it begins anew.
const retry = 20 * time.Millisecond

// Connect shakes hands in the background.
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
	control, err := a.dial(ctx, addr)
	if err != nil {
		return err
	}
	defer control.drop()
	hello, err := a.sayHello(control)
	if err != nil {
		return err
	}
	for {
		s, taken := a.peers.take(hello.Life, true, cancel)
		if taken {
			return a.claim(ctx, s, addr, hello, control)
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
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := a.shake(ctx, c)
	if err := a.prove(ctx, s, true); err != nil {
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
	f, b, err := c.Get()
	if err != nil {
		return wire.Hello{}, err
	}
	if f != wire.FrameHello {
		return wire.Hello{}, unexpected(f, b)
	}
	h, refuse, err := a.judge(c.life, b)
	if refuse != nil {
		_ = c.Put(wire.FrameRefuse, refuse) // the other end found out by itself, or hears it now
	}
	if err == nil && h.Life == a.hello.Life {
		err = agent.ErrSelf
	}
	return h, err
}

// claim asks for the link, brings the bulk connections and sets it up.
func (a *Agent) claim(ctx context.Context, s *slot, addr string, hello wire.Hello, control *shake) (err error) {
	lanes := make([]*shake, 0, a.o.Bulk)
	defer func() {
		if err != nil {
			for _, c := range lanes {
				c.drop()
			}
			a.peers.release(s, func() {})
		}
	}()
	claim := wire.Claim{Bulk: uint16(a.o.Bulk)}
	rand.Read(claim.Nonce[:])
	if err := control.Put(wire.FrameClaim, claim); err != nil {
		return err
	}
	if err := control.expect(wire.FrameWelcome); err != nil {
		return err
	}
	for i := range a.o.Bulk {
		c, err := a.dial(ctx, addr)
		if err != nil {
			return err
		}
		lanes = append(lanes, c)
		if c.life != hello.Life {
			return errors.New("a bulk connection came to another life")
		}
		if err := c.Put(wire.FrameJoin, wire.Join{Nonce: claim.Nonce, Index: uint16(i)}); err != nil {
			return err
		}
	}
	if err := control.expect(wire.FrameReady); err != nil {
		return err
	}
	return a.establish(s, addr, hello, control, lanes)
}

// establish turns the connections of a handshake that the dialling side made into the link.
func (a *Agent) establish(s *slot, addr string, hello wire.Hello, control *shake, lanes []*shake) error {
	c, err := control.keep()
	if err != nil {
		return err
	}
	kept := make([]net.Conn, 0, len(lanes))
	for _, lane := range lanes {
		k, err := lane.keep()
		if err != nil {
			_ = c.Close() // it is out of the handshake, so that drop would not
			return err
		}
		kept = append(kept, k)
	}
	a.linkUp(s, addr, hello, c, kept)
	return nil
}
