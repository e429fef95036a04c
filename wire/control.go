package wire

import "fmt"

// Kind is the first byte of every control message.
type Kind uint8

// The control messages. They travel as notices, alone or after a write's bytes.
const (
	KindRegister Kind = iota + 1
	KindResult
	KindWithdraw
	KindProgress
	KindHeartbeat
	KindHeartbeatAck
	KindComplete
	KindAnnounce
	KindClock
)

// Message is a decoded control message: a pointer to one of the types that a Kind names.
type Message interface {
	// Append encodes the message, its kind first.
	Append(b []byte) []byte
}

// DecodeMessage decodes any control message.
func DecodeMessage(b []byte) (Message, error) {
	d := dec{b: b}
	var m interface {
		Message
		decode(d *dec)
	}
	switch k := Kind(d.u8()); k {
	case KindRegister:
		m = &Register{}
	case KindResult:
		m = &Result{}
	case KindWithdraw:
		m = &Withdraw{}
	case KindProgress:
		m = &Progress{}
	case KindHeartbeat:
		m = &Heartbeat{}
	case KindHeartbeatAck:
		m = &HeartbeatAck{}
	case KindComplete:
		m = &Complete{}
	case KindAnnounce:
		m = &Announce{}
	case KindClock:
		m = &Clock{}
	default:
		if d.err != nil {
			return nil, d.err
		}
		return nil, fmt.Errorf("wire: unknown message kind %d", k)
	}
	m.decode(&d)
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("%T: %w", m, err)
	}
	return m, nil
}
