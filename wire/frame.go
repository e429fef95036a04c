package wire

import (
	"encoding/binary"
	"fmt"
)

// Magic is what either side sends first on every connection, whatever its protocol version,
// so that a stranger is known by its first bytes.
const Magic = "kvferry\n"

// Frame is the kind of a frame between two agents.
type Frame uint8

// The frames of a control connection; write and data are those of a bulk connection.
const (
	FrameHello     Frame = iota + 1 // Hello, in both directions
	FrameRefuse                     // Refuse, and then the connection ends
	FrameClaim                      // Claim, from the side that dialled
	FrameWelcome                    // empty: the claim is granted, bulk connections may join
	FrameJoin                       // Join, first on a bulk connection but for the proof
	FrameReady                      // empty: every connection is there
	FramePing                       // Ping
	FramePong                       // Ping, sent back
	FrameBye                        // Bye, and then the connections end
	FrameNotice                     // the payload itself
	FrameAck                        // Ack
	FrameRead                       // ReadRequest
	FrameWrite                      // Write, then the bytes of its ranges, then its notice
	FrameData                       // ReadData, then its bytes
	FrameChallenge                  // Challenge, first of all in both directions
	FrameProof                      // Proof, next in both directions
)

// frames has each kind's name and the longest body it may have, in bytes.
var frames = [...]struct {
	name string
	max  int
}{
	FrameHello:   {"hello", 256 << 10},
	FrameRefuse:  {"refuse", 4*MaxString + 64},
	FrameClaim:   {"claim", 64},
	FrameWelcome: {"welcome", 0},
	FrameJoin:    {"join", 64},
	FrameReady:   {"ready", 0},
	FramePing:    {"ping", 64},
	FramePong:    {"pong", 64},
	FrameBye:     {"bye", MaxString + 64},
	FrameNotice:  {"notice", MaxNotice},
	FrameAck:     {"ack", MaxString + 64},
	FrameRead:    {"read", MaxRanges*rangeSize + 64},
	FrameWrite:   {"write", MaxRanges*rangeSize + 64},
	FrameData:    {"data", MaxString + 64},

	FrameChallenge: {"challenge", 64},
	FrameProof:     {"proof", 64},
}

// MaxNotice is the longest notice, in bytes.
const MaxNotice = 8 << 20

// MaxBulk is how many bytes may follow one Write or ReadData, its notice not counted.
const MaxBulk = 16 << 20

// FrameHeader is the length of what stands before every body: its length, and the kind.
const FrameHeader = 5

func (f Frame) String() string {
	if f.known() {
		return frames[f].name
	}
	return fmt.Sprintf("frame(%d)", uint8(f))
}

func (f Frame) known() bool { return f > 0 && int(f) < len(frames) }

// Body is what a frame holds.
type Body interface {
	// Append encodes the body.
	Append(b []byte) []byte
}

// Raw is a body that is bytes already.
type Raw []byte

// Append copies the bytes.
func (r Raw) Append(b []byte) []byte { return append(b, r...) }

// Pack encodes a whole frame; an empty body may be nil.
func Pack(f Frame, body Body) []byte { return AppendFrame(make([]byte, 0, 64), f, body) }

// AppendFrame is Pack behind what b holds.
func AppendFrame(b []byte, f Frame, body Body) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, byte(f))
	if body != nil {
		b = body.Append(b)
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-FrameHeader))
	return b
}

// ParseHeader reads a frame's first FrameHeader bytes: its kind, and how long its body is. A
// kind that is not known and a body longer than its kind may have are errors.
func ParseHeader(b []byte) (Frame, int, error) {
	if len(b) < FrameHeader {
		return 0, 0, ErrShort
	}
	f, n := Frame(b[4]), binary.LittleEndian.Uint32(b)
	if !f.known() {
		return 0, 0, fmt.Errorf("wire: no frame has kind %d", b[4])
	}
	if n > uint32(frames[f].max) {
		return 0, 0, fmt.Errorf("wire: a %s of %d bytes is longer than %d", f, n, frames[f].max)
	}
	return f, int(n), nil
}
