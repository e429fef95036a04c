package node

import (
	"crypto/rand"
	"errors"
	"strings"
)

// TokenVariable names the environment variable that holds the deployment's token where no flag
// gives it. Unlike an argument, only the process's own user can read it.
const TokenVariable = "KVFERRY_TOKEN"

// maxToken is the longest token, in bytes.
const maxToken = 256

// NewToken draws a token that nobody can guess.
func NewToken() string { return rand.Text() }

// CheckToken says what keeps a text from being a token: it has to travel in a header's value. The
// error has nothing of the text in it.
func CheckToken(s string) error {
	if s == "" || len(s) > maxToken || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("token: want 1 to 256 visible ASCII characters without a space")
	}
	return nil
}
