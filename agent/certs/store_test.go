package certs_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"kvferry/agent/certs"
	"kvferry/agent/certs/certstest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// meet shakes hands between two stores, and gives both sides' errors. The side that dials hears
// of a refusal with its first byte only.
func meet(t *testing.T, dialler, listener *certs.Store) (dialled, accepted error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		s, err := listener.Listen(ctx, c)
		if err == nil {
			_, err = s.Write(s.Binding)
		}
		done <- err
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer c.Close()
	s, err := dialler.Dial(ctx, c)
	if err == nil {
		b := make([]byte, 64)
		var n int
		if n, err = s.Read(b); err == nil && !bytes.Equal(b[:n], s.Binding) {
			t.Errorf("the two ends are bound to %x and %x", b[:n], s.Binding)
		}
	}
	c.Close()
	return err, <-done
}

func TestOpenRefuses(t *testing.T) {
	good := certstest.New(t).Issue(t, t.TempDir())
	other := certstest.New(t).Issue(t, t.TempDir())
	empty := t.TempDir() + "/empty.pem"
	must(t, os.WriteFile(empty, nil, 0o600))
	for name, f := range map[string]certs.Files{
		"nothing":         {},
		"no key":          {Cert: good.Cert, CA: good.CA},
		"no authority":    {Cert: good.Cert, Key: good.Key},
		"not there":       {Cert: good.Cert + "x", Key: good.Key, CA: good.CA},
		"another's key":   {Cert: good.Cert, Key: other.Key, CA: good.CA},
		"empty authority": {Cert: good.Cert, Key: good.Key, CA: empty},
	} {
		if _, err := certs.Open(f, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s is opened", name)
		}
	}
}

// A renewal that is half done, or wrong, leaves what was good in use and says so once; when it is
// whole it counts.
func TestBrokenRenewalKeepsTheOld(t *testing.T) {
	var said bytes.Buffer
	dir := t.TempDir()
	first := certstest.New(t)
	f := first.Issue(t, dir)
	s, err := certs.Open(f, slog.New(slog.NewTextHandler(&said, nil)))
	must(t, err)
	for i, spoil := range []func(){
		func() { must(t, os.WriteFile(f.Cert, []byte("no certificate"), 0o600)) },
		func() { must(t, os.Remove(f.Key)) },
		func() { must(t, os.WriteFile(f.CA, nil, 0o600)) },
	} {
		first.Issue(t, dir)
		if d, a := meet(t, s, s); d != nil || a != nil {
			t.Fatalf("%d: %v, %v", i, d, a)
		}
		said.Reset()
		spoil()
		for range 3 {
			if d, a := meet(t, s, s); d != nil || a != nil {
				t.Errorf("%d: %v, %v", i, d, a)
			}
		}
		if n := strings.Count(said.String(), "no good"); n != 1 {
			t.Errorf("%d: said %d times: %s", i, n, said.String())
		}
	}
	said.Reset()
	second := certstest.New(t)
	second.Issue(t, dir)
	renewed, err := certs.Open(second.Issue(t, t.TempDir()), slog.New(slog.DiscardHandler))
	must(t, err)
	if d, a := meet(t, s, renewed); d != nil || a != nil {
		t.Errorf("%v, %v", d, a)
	}
	if !strings.Contains(said.String(), "read again") {
		t.Error(said.String())
	}
}

// A connection whose other end takes nothing is closed at once, with nothing said to it.
func TestCloseWaitsForNobody(t *testing.T) {
	s, err := certs.Open(certstest.New(t).Issue(t, t.TempDir()), slog.New(slog.DiscardHandler))
	must(t, err)
	near, far := net.Pipe()
	defer far.Close()
	other := make(chan error, 1)
	go func() {
		c, err := s.Listen(t.Context(), far)
		if err == nil {
			_, err = c.Write([]byte("x")) // a pipe holds nothing, so the handshake is over then
		}
		other <- err
	}()
	c, err := s.Dial(t.Context(), near)
	must(t, err)
	_, err = c.Read(make([]byte, 1))
	must(t, err)
	must(t, <-other)
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-time.After(3 * time.Second): // TLS would take 5 to say goodbye
		t.Error("it waits")
	}
}
