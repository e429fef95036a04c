// Package certs keeps the certificates of a deployment: this engine's own and the authority that
// signed everybody's. The files are read again when they have changed, so that certificates are
// renewed while engines run.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are PEM files: our certificate with what it hangs on, its key, and the authority's
// certificate or several.
type Files struct {
	Cert, Key, CA string
}

// None tells whether no file is named.
func (f Files) None() bool { return f == Files{} }

// Check says which file is not named where others are, or nil.
func (f Files) Check() error {
	if f.None() || f.Cert != "" && f.Key != "" && f.CA != "" {
		return nil
	}
	return errors.New("TLS needs all three files: the certificate, its key and the authority's certificate")
}

// Store gives TLS settings out of files. It is safe for concurrent use.
type Store struct {
	files Files
	log   *slog.Logger

	mu    sync.Mutex
	stamp stamp
	now   material
}

// material is what the files hold.
type material struct {
	cert tls.Certificate
	ca   *x509.CertPool
}

// stamp tells whether files have changed.
type stamp [3]struct {
	modified time.Time
	size     int64
	mode     fs.FileMode
}

// Open reads the files; they must be good.
func Open(f Files, log *slog.Logger) (*Store, error) {
	if f.None() {
		return nil, errors.New("certs: no files are named")
	}
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	s := &Store{files: f, log: log}
	var err error
	if s.stamp, err = f.look(); err == nil {
		s.now, err = f.read()
	}
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return s, nil
}

func (f Files) look() (st stamp, err error) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		info, err := os.Stat(name)
		if err != nil {
			return st, err
		}
		st[i].modified, st[i].size, st[i].mode = info.ModTime(), info.Size(), info.Mode()
	}
	return st, nil
}

func (f Files) read() (material, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return material{}, fmt.Errorf("%s with %s: %w", f.Cert, f.Key, err)
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return material{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return material{}, fmt.Errorf("%s: holds no certificate", f.CA)
	}
	return material{cert: cert, ca: pool}, nil
}

// current is what the files hold, or, where they changed and are no good, what they held before:
// half a renewal must not cut an engine off. Each change is tried once, and told.
func (s *Store) current() material {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.files.look()
	if err == nil && st == s.stamp {
		return s.now
	}
	var m material
	if err == nil {
		m, err = s.files.read()
	}
	changed := st != s.stamp
	s.stamp = st
	switch {
	case err == nil:
		s.now = m
		s.log.Info("certificates read again", "cert", s.files.Cert)
	case changed:
		s.log.Error("certificates changed and are no good; the old ones stay", "err", err)
	}
	return s.now
}

// Server is the settings of a side that listens.
func (s *Store) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.current()
			c := m.config(x509.ExtKeyUsageClientAuth)
			c.ClientAuth = tls.RequireAnyClientCert // VerifyConnection does the rest
			c.SessionTicketsDisabled = true         // each connection proves itself anew
			return c, nil
		},
	}
}

// Client is the settings of a side that dials.
func (s *Store) Client() *tls.Config { return s.current().config(x509.ExtKeyUsageServerAuth) }

// config verifies the other end by our authority alone. Engines are dialled by addresses that
// come and go, so names are not compared: whom the authority signed is of the deployment.
func (m material) config(usage x509.ExtKeyUsage) *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		Certificates:                []tls.Certificate{m.cert},
		InsecureSkipVerify:          true, // of the name; VerifyConnection checks the chain
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			return verify(c.PeerCertificates, m.ca, usage)
		},
	}
}

// verify checks a chain, as of now.
func verify(chain []*x509.Certificate, ca *x509.CertPool, usage x509.ExtKeyUsage) error {
	if len(chain) == 0 {
		return errors.New("the peer has no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: ca, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}
