package transfer

// Phase names where a session stands, for traces and for whoever counts which transitions were
// taken. It is drawn from the session's state and held nowhere.
func (s *Send) Phase() string {
	switch {
	case s.own.phase == phaseReleased:
		return "released"
	case s.err != nil && s.own.phase == phaseCompleted:
		return "draining complete"
	case s.err != nil:
		return "draining"
	case s.offered:
		return "evicted"
	case s.own.phase == phaseIdle && s.reg == nil:
		return "waiting"
	case s.own.phase == phaseIdle:
		return "registered"
	case s.own.phase == phaseAcquired && s.reg == nil:
		return "held"
	case s.own.phase == phaseAcquired:
		return "flowing"
	case s.reg == nil:
		return "offered"
	}
	return "finishing"
}

// Phase names where a session stands, as Send.Phase does.
func (r *Receive) Phase() string {
	switch r.phase {
	case receiveConnecting:
		return "connecting"
	case receivePosted:
		return "posted"
	case receiveClosing:
		return "closing"
	case receiveFailing:
		if r.revoked {
			return "quarantined"
		}
		return "failing"
	}
	return "ended"
}

// Phase names where an offer stands, as Send.Phase does.
func (o *Offer) Phase() string {
	switch {
	case o.own.phase == phaseReleased:
		return "released"
	case o.finished:
		return "draining"
	case o.offered:
		return "held"
	case o.own.phase == phaseIdle:
		return "waiting"
	}
	return "computing"
}

// Phase names where a session stands, as Send.Phase does.
func (p *Pull) Phase() string {
	return [...]string{"connecting", "waiting", "reading", "verifying", "draining", "ended"}[p.phase]
}
