package router

import "errors"

// leg is how far one of the two requests is, in the newest try that has it.
type leg struct {
	state legState
	// try is the one that started it, 0 if none did.
	try int
}

type legState uint8

const (
	// idle: it was not started.
	idle legState = iota
	running
	done
	failed
	cancelled
)

// stale says that what is told is not of this leg as it is: of an earlier try, or of a leg
// that was cancelled.
func (l *leg) stale(try int) bool { return try < l.try || l.state == cancelled }

// ended notes a leg's end. One that is stale ends without a say (live is false).
func (l *leg) ended(try int, as legState) (live bool, err error) {
	switch {
	case l.stale(try):
		return false, nil
	case l.state == idle || try != l.try:
		return false, errors.New("router: leg ended that did not begin")
	case l.state != running:
		return false, errors.New("router: leg ended twice")
	}
	l.state = as
	return true, nil
}
