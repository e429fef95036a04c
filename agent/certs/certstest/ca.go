// Package certstest signs certificates for tests.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kvferry/agent/certs"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	c := template(time.Now())
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	c.NotBefore, c.NotAfter = c.NotBefore.Add(-1000*time.Hour), c.NotAfter.Add(1000*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, c, a.key.Public(), a.key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	return a
}

// Issue writes a certificate that is valid now, with its key and the authority's own, into a
// folder.
func (a *Authority) Issue(t testing.TB, dir string) certs.Files {
	t.Helper()
	return a.IssueAt(t, dir, time.Now())
}

// IssueAt writes one that is valid for an hour before and after a time.
func (a *Authority) IssueAt(t testing.TB, dir string, at time.Time) certs.Files {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template(at), a.cert, key.Public(), a.key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	f := certs.Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
	write(t, f.Cert, "CERTIFICATE", der)
	write(t, f.Key, "PRIVATE KEY", secret)
	write(t, f.CA, "CERTIFICATE", a.cert.Raw)
	return f
}

func template(at time.Time) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // the reader does not fail
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "engine"},
		NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return k
}

// write puts a file in the place of the one before at once, so that nobody reads half of it.
func write(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	next := name + ".next"
	must(t, os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	must(t, os.Rename(next, name))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
