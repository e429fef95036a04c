package e2etest

import (
	"testing"
	"time"
)

// Soon is how long an engine may take to be idle again after its last request ended in any
// way (case 13).
const Soon = 2 * time.Second

// Await asks again and again until the condition holds. It fails the test with the
// condition's last error if that takes longer than limit.
func Await(t testing.TB, limit time.Duration, what string, holds func() error) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
	}
}
