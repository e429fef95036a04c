package transfer

import (
	"errors"
	"testing"

	"kvferry/wire"
)

// TestSendStatus draws the session's state from the states of its slices.
//
// req: PIPE-14
func TestSendStatus(t *testing.T) {
	const due, flying, landed, failed = sliceDue, sliceInFlight, sliceLanded, sliceFailed
	for _, c := range []struct {
		name       string
		slices     []sliceState
		last       bool // the last of them is the prompt's last
		registered bool
		err        error
		want       SendStatus
	}{
		{"no slice, no receiver", nil, false, false, nil, SendInit},
		{"no slice is never transferred", nil, false, true, nil, SendReady},
		{"slices that nobody registered for", []sliceState{due, due}, true, false, nil, SendInit},
		{"one in flight", []sliceState{flying}, false, true, nil, SendTransferring},
		{"one in flight behind one that landed", []sliceState{landed, flying}, true, true, nil, SendTransferring},
		{"one in flight before one that landed", []sliceState{flying, landed}, true, true, nil, SendTransferring},
		{"all landed, and more to come", []sliceState{landed, landed}, false, true, nil, SendTransferred},
		{"all landed, the aux too", []sliceState{landed, landed}, true, true, nil, SendFullyTransferred},
		{"one slice that is all", []sliceState{landed}, true, true, nil, SendFullyTransferred},
		{"one failed", []sliceState{landed, failed}, false, true, nil, SendError},
		{"one failed, another in flight", []sliceState{failed, flying}, true, true, nil, SendError},
		{"the last one failed, and the aux with it", []sliceState{landed, failed}, true, true, nil, SendError},
		{"cancelled with all landed", []sliceState{landed, landed}, false, true, errors.New("cancelled"), SendError},
		{"cancelled with one in flight", []sliceState{flying}, false, true, errors.New("cancelled"), SendError},
	} {
		s := &Send{err: c.err}
		if c.registered {
			s.reg = &wire.Register{}
		}
		for i, state := range c.slices {
			s.slices = append(s.slices, &slice{state: state, last: c.last && i == len(c.slices)-1})
		}
		if got := s.Status(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.name(), c.want.name())
		}
	}
}
