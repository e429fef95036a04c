// Package frame reads frames off a connection whose other end may be anybody: what it allocates is never
// more than a multiple of what has come.
package frame

import (
	"fmt"
	"io"

	"kvferry/wire"
)

// trust is how much of a frame's body is allocated before its bytes come.
const trust = 64 << 10

// Read reads one frame with its body of at most limit bytes.
func Read(r io.Reader, limit int) (wire.Frame, []byte, error) {
	var h [wire.FrameHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	f, n, err := wire.ParseHeader(h[:])
	if err != nil {
		return 0, nil, err
	}
	if n > limit {
		return 0, nil, fmt.Errorf("a %s of %d bytes, where %d are the most", f, n, limit)
	}
	b, err := Bytes(r, n)
	return f, b, err
}

// Bytes reads n bytes that the other end announced. What it allocates at most doubles
// what came already.
func Bytes(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, min(n, trust))
	have := 0
	for {
		m, err := io.ReadFull(r, b[have:])
		if have += m; err != nil {
			return nil, NoEOF(err)
		}
		if have == n {
			return b, nil
		}
		grown := make([]byte, min(n, 2*have))
		copy(grown, b)
		b = grown
	}
}

// NoEOF makes an end within a frame an error of its own.
func NoEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
