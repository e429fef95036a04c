package wire

import "fmt"

// RefuseCode says what kind of refusal a Refuse is.
type RefuseCode uint8

// The reasons for which a connection is refused.
const (
	// RefuseMismatch: the identities differ in Field.
	RefuseMismatch RefuseCode = iota + 1
	// RefuseBusy: another connection between the two is up or coming up.
	RefuseBusy
	// RefuseOther: Reason says it all.
	RefuseOther
)

// Refuse ends a handshake. Its layout is the same in every protocol version.
type Refuse struct {
	Code RefuseCode
	// Field, Ours and Theirs are a MismatchError's, as the sender sees it.
	Field, Ours, Theirs string
	Reason              string
}

// Err is the refusal as the refused side tells it: a MismatchError with ours and theirs
// turned around, or the reason.
func (r Refuse) Err() error {
	if r.Code == RefuseMismatch {
		return &MismatchError{Field: r.Field, Ours: r.Theirs, Theirs: r.Ours}
	}
	return fmt.Errorf("the peer says: %s", r.Reason)
}

// Append encodes the refusal.
func (r Refuse) Append(b []byte) []byte {
	e := enc{b}
	e.u8(uint8(r.Code))
	e.string(r.Field)
	e.string(r.Ours)
	e.string(r.Theirs)
	e.string(r.Reason)
	return e.b
}

// DecodeRefuse decodes what Append encoded.
func DecodeRefuse(b []byte) (Refuse, error) {
	d := dec{b: b}
	r := Refuse{
		Code: RefuseCode(d.u8()), Field: d.string(), Ours: d.string(), Theirs: d.string(), Reason: d.string(),
	}
	if d.err == nil && (r.Code < RefuseMismatch || r.Code > RefuseOther) {
		d.fail(fmt.Errorf("wire: %d is no reason to refuse", r.Code))
	}
	return r, d.end()
}
