package sim

import "time"

// Shrink makes a failing plan small: it takes out what the failure does not need, for as long
// as the plan still breaks the same rule. It gives the smallest plan it found and its violation.
func Shrink(p Plan) (Plan, *Violation) {
	s := shrinker{plan: p, bad: Run(p, Options{}).Violation}
	if s.bad == nil {
		return p, nil
	}
	for again := true; again && s.runs < maxShrinkRuns; {
		again = s.dropFaults()
		again = s.dropRequests() || again
		again = s.simplify() || again
	}
	return s.plan, s.bad
}

// maxShrinkRuns bounds the work; a run takes about a millisecond.
const maxShrinkRuns = 5000

type shrinker struct {
	plan Plan
	bad  *Violation
	runs int
}

// try takes a smaller plan over if it still breaks the rule.
func (s *shrinker) try(p Plan) bool {
	if s.runs >= maxShrinkRuns || p.Validate() != nil {
		return false
	}
	s.runs++
	bad := Run(p, Options{}).Violation
	if bad == nil || bad.Rule != s.bad.Rule {
		return false
	}
	s.plan, s.bad = p, bad
	return true
}

// dropFaults takes faults out, many at a time first.
func (s *shrinker) dropFaults() bool {
	return without(func() int { return len(s.plan.Faults) }, func(from, to int) bool {
		p := s.plan
		p.Faults = cut(p.Faults, from, to)
		return s.try(p)
	})
}

// dropRequests takes requests out, with the faults that they set off.
func (s *shrinker) dropRequests() bool {
	return without(func() int { return len(s.plan.Requests) }, func(from, to int) bool {
		p := s.plan
		p.Requests = cut(p.Requests, from, to)
		p.Faults = nil
		for _, f := range s.plan.Faults {
			if f.Request > from && f.Request <= to || f.Victim > from && f.Victim <= to {
				continue
			}
			for _, n := range []*int{&f.Request, &f.Victim} {
				if *n > to {
					*n -= to - from
				}
			}
			p.Faults = append(p.Faults, f)
		}
		for i := range p.Requests {
			for _, earlier := range []*int{&p.Requests[i].Like, &p.Requests[i].After} {
				switch {
				case *earlier > to:
					*earlier -= to - from
				case *earlier > from:
					*earlier = 0
				}
			}
		}
		return s.try(p)
	})
}

// without tries to leave out ranges of n things, from halves down to single ones.
func without(n func() int, leaveOut func(from, to int) bool) (any bool) {
	for size := max(1, n()/2); size > 0; size /= 2 {
		for from := 0; from < n(); {
			if leaveOut(from, min(from+size, n())) {
				any = true
			} else {
				from += size
			}
		}
	}
	return any
}

func cut[T any](list []T, from, to int) []T {
	return append(append([]T(nil), list[:from]...), list[to:]...)
}

// simplify makes numbers smaller and takes ornaments off.
func (s *shrinker) simplify() (any bool) {
	for _, change := range s.changes() {
		p := s.plan
		p.Requests = append([]Request(nil), p.Requests...)
		p.Faults = append([]Fault(nil), p.Faults...)
		change(&p)
		if p.String() != s.plan.String() && s.try(p) {
			any = true
		}
	}
	return any
}

// round makes every time of a plan a multiple of unit, and none that was set zero.
func round(p *Plan, unit int64) {
	c := &p.Cluster
	times := []*int64{&c.Timeout, &c.DeadAfter, &c.Latency, &c.Jitter, &c.BlockTime, &c.Pass, &c.PassToken, &c.Lease, &c.TurnTTL}
	for i := range p.Requests {
		times = append(times, &p.Requests[i].At, &p.Requests[i].Skew)
	}
	for i := range p.Faults {
		times = append(times, &p.Faults[i].At, &p.Faults[i].After, &p.Faults[i].For, &p.Faults[i].Lateness)
	}
	for _, t := range times {
		if *t != 0 {
			*t = nearest(*t, unit)
		}
	}
}

func nearest(t, unit int64) int64 {
	if t < 0 {
		return -nearest(-t, unit)
	}
	return max(unit, (t+unit/2)/unit*unit)
}

// changes are the simplifications to try, each on the plan as it is then.
func (s *shrinker) changes() []func(*Plan) {
	out := []func(*Plan){
		func(p *Plan) { p.Cluster.Windows = []int{0} },
		func(p *Plan) { p.Cluster.Windows = p.Cluster.Windows[:max(1, len(p.Cluster.Windows)-1)] },
		func(p *Plan) { p.Cluster.Layers, p.Cluster.Whole = 1, 0 },
		func(p *Plan) { p.Cluster.PrefillTensor, p.Cluster.DecodeTensor, p.Cluster.Heads = 0, 0, 1 },
		func(p *Plan) { p.Cluster.PrefillStages, p.Cluster.DecodeStages = 0, 0 },
		func(p *Plan) { p.Cluster.PrefillGrow = false },
		func(p *Plan) { p.Cluster.DecodeGrow = false },
		func(p *Plan) { p.Cluster.PrefillReuse = false },
		func(p *Plan) { p.Cluster.DecodeReuse = false },
		func(p *Plan) { p.Cluster.Checksum = false },
		func(p *Plan) { p.Cluster.Parts = 0 },
		func(p *Plan) { p.Cluster.Jitter = 0 },
		func(p *Plan) { p.Cluster.Drift = 0 },
		func(p *Plan) { p.Cluster.TurnTTL = 0 },
		func(p *Plan) { p.Cluster.Threshold = 0 },
		func(p *Plan) { p.Cluster.Recompute = false },
		func(p *Plan) { p.Cluster.Lanes = 1 },
		func(p *Plan) { p.Cluster.PassToken = 0 },
		func(p *Plan) { round(p, int64(time.Millisecond)) },
		func(p *Plan) { round(p, int64(10*time.Microsecond)) },
		func(p *Plan) { p.Cluster.Prefill = max(1, p.Cluster.Prefill-1) },
		func(p *Plan) { p.Cluster.Decode = max(1, p.Cluster.Decode-1) },
	}
	for i := range s.plan.Requests {
		out = append(out,
			func(p *Plan) { p.Requests[i].Max = 1 },
			func(p *Plan) { p.Requests[i].Prompt = (p.Requests[i].Prompt + 1) / 2 },
			func(p *Plan) { p.Requests[i].Prompt = max(1, p.Requests[i].Prompt-1) },
			func(p *Plan) { p.Requests[i].At = 0 },
			func(p *Plan) { p.Requests[i].Skew = 0 },
			func(p *Plan) { p.Requests[i].IgnoreEOS = true },
			func(p *Plan) { p.Requests[i].Like, p.Requests[i].Alike = 0, 0 },
			func(p *Plan) { p.Requests[i].Twin, p.Requests[i].Newer = "", false },
			func(p *Plan) { p.Requests[i].Second = "" },
			func(p *Plan) { p.Requests[i].After = 0 },
		)
	}
	for i := range s.plan.Faults {
		out = append(out,
			func(p *Plan) { p.Faults[i].After = 0 },
			func(p *Plan) { p.Faults[i].For /= 2 },
			func(p *Plan) { p.Faults[i].By /= 2 },
		)
	}
	return out
}
