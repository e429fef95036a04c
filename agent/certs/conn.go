package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// Listen shakes hands on a connection that came in.
func (s *Store) Listen(ctx context.Context, c net.Conn) (*Conn, error) {
	return shake(ctx, c, tls.Server(c, s.Server()))
}

// Dial shakes hands on a connection that we made.
func (s *Store) Dial(ctx context.Context, c net.Conn) (*Conn, error) {
	return shake(ctx, c, tls.Client(c, s.Client()))
}

// Conn is an encrypted connection whose two ends have verified each other.
type Conn struct {
	*tls.Conn
	raw net.Conn
	// Binding is known to the two ends of this connection alone.
	Binding []byte
}

// Close ends the connection at once: a peer that takes nothing off us is not waited for.
func (c *Conn) Close() error { return c.raw.Close() }

func shake(ctx context.Context, raw net.Conn, t *tls.Conn) (*Conn, error) {
	if err := t.HandshakeContext(ctx); err != nil {
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) {
			err = errors.New("the other end does not speak TLS, which this engine has certificates for")
		}
		return nil, fmt.Errorf("TLS: %w", err)
	}
	state := t.ConnectionState()
	binding, err := state.ExportKeyingMaterial("EXPORTER-kvferry-agent", nil, 32)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return &Conn{Conn: t, raw: raw, Binding: binding}, nil
}
