//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"kvferry/agent"
	"kvferry/wire"
)

// accept lets connections in until the listener is closed.
func (a *Agent) accept(ln *net.UnixListener) {
	for {
		c, err := ln.AcceptUnix()
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
func (a *Agent) admit(c *net.UnixConn) {
	select {
	case a.doors <- struct{}{}:
	default:
		a.log.Warn("connection refused: too many handshakes")
		_ = c.Close() // it was never used
		return
	}
	a.wg.Go(func() {
		defer func() { <-a.doors }()
		ctx, cancel := context.WithTimeout(a.ctx, a.o.Handshake)
		defer cancel()
		if err := a.welcome(ctx, c); err != nil {
			a.log.Warn("handshake failed", "err", a.shakeErr(ctx, err))
		}
	})
}

// welcome is the handshake of the side that listens. Another user's process hears nothing.
func (a *Agent) welcome(ctx context.Context, conn *net.UnixConn) error {
	c := newShake(ctx, conn)
	defer c.drop()
	if err := checkUser(conn); err != nil {
		return err
	}
	if err := c.prove(a.o.Secret.Accept, a.hello.Life); err != nil {
		return err
	}
	b, err := c.expect(wire.FrameHello)
	if err != nil {
		return err
	}
	hello, refuse, err := a.judge(c, b)
	if refuse != nil {
		return errors.Join(err, c.Put(wire.FrameRefuse, refuse))
	}
	if err := c.Put(wire.FrameHello, a.hello); err != nil {
		return err
	}
	b, err = c.expect(wire.FrameClaim)
	if err != nil {
		return a.unclaimed(hello.Life, err)
	}
	if _, err := wire.DecodeClaim(b); err != nil {
		return err
	}
	if hello.Life == a.hello.Life {
		return agent.ErrSelf // an agent that dialled itself would not claim
	}
	return a.answer(ctx, hello, c)
}

// unclaimed is no error where the peer found that the two are connected already.
func (a *Agent) unclaimed(life wire.Life, err error) error {
	if a.peers.up(life) != nil {
		return nil
	}
	return err
}

// answer grants the peer's claim, unless a connection of ours stays, and sets the link up.
func (a *Agent) answer(ctx context.Context, hello wire.Hello, c *shake) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := a.peers.takeFor(ctx, a.hello.Life, hello.Life, cancel)
	if err != nil {
		return errors.Join(err, c.Put(wire.FrameRefuse, wire.Refuse{Code: wire.RefuseBusy}))
	}
	l, err := a.newLink(s, "", hello)
	if err == nil {
		err = a.exchange(ctx, l, c)
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

// exchange gives the peer what it needs of our memory, and takes what it gives.
func (a *Agent) exchange(ctx context.Context, l *link, c *shake) error {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // the claim may be superseded
	if err := c.Put(wire.FrameWelcome, nil); err != nil {
		return err
	}
	if err := l.send(c); err != nil {
		return err
	}
	if err := l.receive(c); err != nil {
		_ = c.Put(wire.FrameRefuse, wire.Refuse{Code: wire.RefuseOther, Reason: clip(err.Error())}) // it may be gone
		return err
	}
	if err := l.adopt(c); err != nil {
		return err
	}
	return l.out.Push(wire.Pack(wire.FrameReady, nil))
}

// judge says whether a hello may be a peer's, and if not, how to refuse it.
func (a *Agent) judge(c *shake, b []byte) (wire.Hello, *wire.Refuse, error) {
	h, err := wire.DecodeHello(b)
	if err == nil && h.Life != c.life {
		err = errors.New("its hello is of another life than its proof")
	}
	if err == nil {
		err = a.hello.Identity.Check(h.Identity)
	}
	if err == nil {
		return h, nil, nil
	}
	if m := (*wire.MismatchError)(nil); errors.As(err, &m) {
		return h, &wire.Refuse{Code: wire.RefuseMismatch, Field: m.Field, Ours: m.Ours, Theirs: m.Theirs}, err
	}
	return h, &wire.Refuse{Code: wire.RefuseOther, Reason: clip(fmt.Sprint(err))}, err
}
