package engine

// Noted is something about leases that is counted. Request, Blocks and Reason are set where
// they say something.
type Noted struct {
	What    Note
	Request string
	Blocks  int
	Reason  string
}

// Note is what is counted.
type Note uint8

// The notes.
const (
	// LeasesRenewed: a heartbeat renewed a set.
	LeasesRenewed Note = iota + 1
	// LeaseExpired: nobody renewed a lease, and Blocks were taken back.
	LeaseExpired
	// CompleteIgnored: a reader ended a lease that was not, or no longer, its own.
	CompleteIgnored
	// LoadFailed: a reader could not use, or not prove, what it read; Reason is a word for why.
	LoadFailed
	// TurnPulled and TurnMissed say what became of a handle to an earlier turn.
	TurnPulled
	TurnMissed
)
