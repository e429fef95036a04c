// Package agenttest is what every agent must do, as tests: an implementation runs the suite
// with its own way to make agents.
package agenttest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kvferry/agent"
	"kvferry/agent/fault"
)

// Options are what a test asks of an agent that it makes.
type Options struct {
	// Addr is where to listen; empty is anywhere.
	Addr string
	// Gate, when not nil, holds what leaves the agent as bulk.
	Gate *fault.Gate
	// RevokeGrace is the agent's own option; 0 is its default.
	RevokeGrace time.Duration
	// FrameBytes is how large a frame may be; 0 is the agent's default.
	FrameBytes int
}

// Make makes an agent that is not started.
type Make func(t testing.TB, o Options) agent.Agent

// Run runs the suite, but for the cases named, with pools in mapped memory, as in real life,
// and on the Go heap, where the race detector sees them.
func Run(t *testing.T, newAgent Make, but ...string) {
	RunMapped(t, newAgent, but...)
	RunOnHeap(t, newAgent, but...)
}

// RunMapped runs the suite, but for the cases named, with pools in mapped memory alone.
func RunMapped(t *testing.T, newAgent Make, but ...string) {
	t.Run("mapped", func(t *testing.T) { run(t, newAgent, false, but) })
}

// RunOnHeap runs the suite, but for the cases named, with pools on the Go heap alone.
func RunOnHeap(t *testing.T, newAgent Make, but ...string) {
	t.Run("heap", func(t *testing.T) { run(t, newAgent, true, but) })
}

func run(t *testing.T, newAgent Make, heap bool, but []string) {
	for _, c := range casesBut(but) {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, newAgent: newAgent, heap: heap}
			s.withoutLeak(c.run)
		})
	}
}

// RunInBubble runs the suite in testing/synctest, which finds goroutines that are left by
// itself.
func RunInBubble(t *testing.T, newAgent func() Make, but ...string) {
	for _, c := range casesBut(but) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.run(&suite{T: t, newAgent: newAgent(), heap: true})
			})
		})
	}
}

func casesBut(names []string) []testCase {
	return slices.DeleteFunc(slices.Clone(cases), func(c testCase) bool { return slices.Contains(names, c.name) })
}

type testCase struct {
	name string
	run  func(*suite)
}

var cases = []testCase{
	{"capabilities", capabilities},
	{"register after start", registerAfterStart},
	{"write lands", writeLands},
	{"write of nothing", writeOfNothing},
	{"random writes", randomWrites},
	{"concurrent writes", concurrentWrites},
	{"large write", largeWrite},
	{"epochs take turns", epochsTakeTurns},
	{"short write is not held up", shortWriteIsNotHeldUp},
	{"read lands", readLands},
	{"read of what is not there", readOfWhatIsNotThere},
	{"bad lists", badLists},
	{"refused", refused},
	{"notice waits for the last byte", noticeWaitsForTheLastByte},
	{"notices in order", noticesInOrder},
	{"notify passes bulk", notifyPassesBulk},
	{"notice is copied", noticeIsCopied},
	{"connect to nobody", connectToNobody},
	{"connect to self", connectToSelf},
	{"connect before start", connectBeforeStart},
	{"connect again", connectAgain},
	{"connect from both ends", connectFromBothEnds},
	{"identity mismatch", identityMismatch},
	{"unknown peer", unknownPeer},
	{"restart is another life", restartIsAnotherLife},
	{"drop and connect again", dropAndConnectAgain},
	{"revoke when idle", revokeWhenIdle},
	{"revoke between frames", revokeBetweenFrames},
	{"revoke lets a frame finish", revokeLetsAFrameFinish},
	{"revoke ends a slow frame", revokeEndsASlowFrame},
	{"peer lost in a write", peerLostInAWrite},
	{"peer lost in a read", peerLostInARead},
	{"close", closeEndsAll},
	{"done exactly once", doneExactlyOnce},
}
