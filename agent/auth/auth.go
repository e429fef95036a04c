// Package auth lets two agents prove to each other, before anything else is said on a
// connection, that both have the deployment's token. The token itself never travels: each side
// draws a nonce, and the proofs are HMAC-SHA256 over both nonces, the prover's side and its life.
// The side that dialled proves itself first, so whoever dials without the token learns nothing
// but that it is refused.
package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"kvferry/wire"
)

// Side is which end of a connection proves itself. The two prove different things, so that a
// proof sent back is none.
type Side uint8

// The sides of a connection.
const (
	Dialler Side = iota + 1
	Listener
)

func (s Side) label() string {
	if s == Dialler {
		return "kvferry proof of the side that dialled\x00"
	}
	return "kvferry proof of the side that listens\x00"
}

// Why a peer is refused. None of it is more than whoever asks knows already: that the two sides
// are not of one deployment.
var (
	// ErrNoToken: we have a token and the peer has none.
	ErrNoToken = errors.New("this engine wants the deployment's token and the peer has none: give both the same --token")
	// ErrToken: the peer has a token and we have none.
	ErrToken = errors.New("the peer has a token and this engine has none: give both the same --token, or neither one")
	// ErrProof: both have one, and not the same.
	ErrProof = errors.New("the peer does not prove this deployment's token: give both the same --token")
)

// Secret is the deployment's token, or that there is none: the zero Secret, and New("").
type Secret struct {
	token bool
	key   [sha256.Size]byte
}

// New makes a token's secret. Without a token peers prove nothing but that they follow the
// protocol; they must have none either.
func New(token string) Secret {
	if token == "" {
		return Secret{}
	}
	return Secret{token: true, key: sha256.Sum256([]byte("kvferry agent token\x00" + token))}
}

// Challenge draws what a peer must prove itself over, on one connection.
func (s Secret) Challenge() wire.Challenge {
	c := wire.Challenge{Token: s.token}
	rand.Read(c.Nonce[:])
	return c
}

// Agree says why a peer that challenges so cannot be one, or nil.
func (s Secret) Agree(theirs wire.Challenge) error {
	switch {
	case s.token && !theirs.Token:
		return ErrNoToken
	case !s.token && theirs.Token:
		return ErrToken
	}
	return nil
}

// Session is the challenges of one connection.
type Session struct {
	Dialler, Listener wire.Challenge
	// Binding, where the connection is encrypted, is what only its two ends know, so that nobody
	// between them can pass their proofs on.
	Binding []byte
}

// Prove makes a side's proof that it has the token and is this life.
func (s Secret) Prove(side Side, on Session, life wire.Life) wire.Proof {
	p := wire.Proof{Life: life}
	m := hmac.New(sha256.New, s.key[:])
	m.Write([]byte(side.label()))
	m.Write(on.Dialler.Append(nil)) // of a fixed length, as all but the binding is
	m.Write(on.Listener.Append(nil))
	m.Write(life[:])
	m.Write(on.Binding)
	m.Sum(p.MAC[:0])
	return p
}

// Verify checks a side's proof, in a time that tells nothing of it.
func (s Secret) Verify(side Side, on Session, p wire.Proof) error {
	want := s.Prove(side, on, p.Life)
	if !hmac.Equal(want.MAC[:], p.MAC[:]) {
		return ErrProof
	}
	return nil
}
