//go:build linux

package shm

import (
	"fmt"
	"io"

	"kvferry/wire"
)

// trust is how much of a frame's body is allocated before its bytes come.
const trust = 64 << 10

// readFrame reads one frame with its body of at most limit bytes.
func readFrame(r io.Reader, limit int) (wire.Frame, []byte, error) {
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
	b, err := readBytes(r, n)
	return f, b, err
}

// readBytes reads n bytes that the other end announced. What it allocates at most doubles
// what came already.
func readBytes(r io.Reader, n int) ([]byte, error) {
	b, have := make([]byte, min(n, trust)), 0
	for {
		m, err := io.ReadFull(r, b[have:])
		if have += m; err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if have == n {
			return b, nil
		}
		b = append(b, make([]byte, min(n, 2*have)-have)...)
	}
}
