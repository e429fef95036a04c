package tcp

import (
	"context"
	"errors"
	"net"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

// accept lets connections in until the listener is closed.
func (a *Agent) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		switch {
		case err == nil:
			a.admit(c)
		case a.ctx.Err() != nil:
			return
		default:
			// Out of descriptors, most likely: others may be closed in a moment.
			a.log.Error("accept failed", "err", err)
			select {
			case <-time.After(retry):
			case <-a.ctx.Done():
				return
			}
		}
	}
}

// admit begins a handshake, unless too many are going on.
func (a *Agent) admit(c net.Conn) {
	d, out := a.doors.enter(c)
	if out != nil {
		a.log.Warn("connection closed: too many handshakes, and it has proved nothing", "from", out.RemoteAddr())
	}
	if d == nil {
		a.log.Warn("connection refused: too many handshakes", "from", c.RemoteAddr())
		_ = c.Close() // it was never used
		return
	}
	a.wg.Go(func() {
		defer a.doors.leave(d)
		ctx, cancel := context.WithTimeout(a.ctx, a.o.Handshake)
		defer cancel()
		if err := a.welcome(ctx, d); err != nil {
			a.log.Warn("handshake failed", "from", c.RemoteAddr(), "err", a.shakeErr(ctx, err))
		}
	})
}

// welcome is the handshake of the side that listens.
func (a *Agent) welcome(ctx context.Context, d *door) error {
	c := a.shake(ctx, d.conn)
	defer c.drop()
	if err := a.prove(ctx, c, false); err != nil {
		return err
	}
	a.doors.prove(d)
	f, b, err := c.Get()
	switch {
	case err != nil:
		return err
	case f == wire.FrameHello:
		return a.welcomeControl(ctx, c, b)
	case f == wire.FrameJoin:
		return a.welcomeBulk(c, b)
	}
	return unexpected(f, b)
}

// welcomeBulk hands a bulk connection to the handshake that waits for it.
func (a *Agent) welcomeBulk(c *shake, b []byte) error {
	j, err := wire.DecodeJoin(b)
	if err != nil {
		return err
	}
	k, err := c.keep()
	if err != nil {
		return err
	}
	if !a.joins.join(j, c.life, k) {
		_ = k.Close() // nobody waits for it
		return errors.New("a bulk connection that no handshake waits for")
	}
	return nil
}

// welcomeControl answers a hello and, if the peer claims it, sets the link up.
func (a *Agent) welcomeControl(ctx context.Context, c *shake, b []byte) error {
	hello, refuse, err := a.judge(c.life, b)
	if refuse != nil {
		return errors.Join(err, c.Put(wire.FrameRefuse, refuse))
	}
	if err := c.Put(wire.FrameHello, a.hello); err != nil {
		return err
	}
	f, b, err := c.Get()
	if err != nil {
		return a.unclaimed(hello.Life, err)
	}
	if f != wire.FrameClaim {
		return unexpected(f, b)
	}
	claim, err := wire.DecodeClaim(b)
	if err != nil {
		return err
	}
	if hello.Life == a.hello.Life {
		return agent.ErrSelf // an agent that dialled itself would not claim
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := a.peers.takeFor(ctx, a.hello.Life, hello.Life, cancel)
	if err != nil {
		return errors.Join(err, c.Put(wire.FrameRefuse, wire.Refuse{Code: wire.RefuseBusy}))
	}
	if err := a.gather(ctx, s, hello, claim, c); err != nil {
		a.peers.release(s, func() {})
		return err
	}
	return nil
}

// unclaimed is no error where the peer found that the two are connected already.
func (a *Agent) unclaimed(life wire.Life, err error) error {
	if a.peers.up(life) != nil {
		return nil
	}
	return err
}

// gather waits for the bulk connections and sets the link up.
func (a *Agent) gather(ctx context.Context, s *slot, hello wire.Hello, claim wire.Claim, c *shake) error {
	w, ok := a.joins.expect(claim.Nonce, hello.Life, int(claim.Bulk))
	if !ok {
		return errors.New("the nonce of the claim is taken")
	}
	err := c.Put(wire.FrameWelcome, nil)
	if err == nil {
		select {
		case <-w.full:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	lanes := a.joins.end(claim.Nonce)
	var control net.Conn
	if err == nil {
		control, err = c.keep()
	}
	if err != nil {
		for _, l := range lanes {
			_ = l.Close() // the handshake failed
		}
		return err
	}
	a.linkUp(s, "", hello, control, lanes, wire.Pack(wire.FrameReady, nil))
	return nil
}

// linkUp tells that the peer is up and lets the connections run. The frames go out first.
func (a *Agent) linkUp(
	s *slot, addr string, hello wire.Hello, control net.Conn, lanes []net.Conn, first ...[]byte,
) {
	l := newLink(a, s, hello, control, lanes)
	for _, f := range first {
		l.out.Push(f)
	}
	a.peers.settle(s, l, func() { a.events.Push(agent.PeerUp{Addr: addr, Hello: hello}) })
	a.log.Info("peer up", "peer", hello.Life, "role", hello.Role, "at", control.RemoteAddr().String(), "dialled", addr != "")
	l.start()
}
