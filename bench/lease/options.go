package lease

import (
	"fmt"
	"time"
)

// Options choose what is measured.
type Options struct {
	// Leases are how many live at a time, Peers how many readers share them.
	Leases, Peers int
	// Duration is a lease's, in whole milliseconds.
	Duration time.Duration
	// Changes is how many leases join and how many leave in a second: half of them each.
	Changes int
	// Expiring is the part of the peers that are not heard any more while leases come and go.
	Expiring float64
	// Periods is how many durations each part lasts.
	Periods int
	// Seed makes the same load again.
	Seed uint64
	// Say, if set, is told how far it is.
	Say func(line string)
}

// DefaultOptions measures a million leases of 100 peers.
func DefaultOptions() Options {
	return Options{Leases: 1_000_000, Peers: 100, Duration: 30 * time.Second, Changes: 10_000, Expiring: 0.1, Periods: 2, Seed: 1}
}

// Validate reports the first option that cannot be.
func (o Options) Validate() error {
	switch {
	case o.Peers < 1:
		return fmt.Errorf("peers %d: want at least 1", o.Peers)
	case o.Leases < o.Peers:
		return fmt.Errorf("leases %d: want at least one a peer, %d", o.Leases, o.Peers)
	case o.Duration < time.Second:
		return fmt.Errorf("duration %v: want at least 1s", o.Duration)
	case o.Changes < 0:
		return fmt.Errorf("changes %d: want at least 0", o.Changes)
	case !(o.Expiring >= 0 && o.Expiring < 1):
		return fmt.Errorf("expiring %v: want a part of 1, below it", o.Expiring)
	case o.Periods < 1:
		return fmt.Errorf("periods %d: want at least 1", o.Periods)
	}
	return nil
}

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

// silent is how many peers are not heard any more.
func (o Options) silent() int { return int(float64(o.Peers) * o.Expiring) }
