package load

import (
	"context"
	"fmt"
)

// Run puts the load on the server and then checks the answers, if asked to. When ctx ends it
// sends no more and reports what it has; when force ends too, it does not check to the end.
func Run(ctx, force context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := newServer(o.URL)
	defer s.close()
	if fail := s.choose(ctx, o.Model); fail != nil {
		return nil, fmt.Errorf("%s: %w", o.URL, fail)
	}
	var right *server
	if o.Check != "" {
		right = newServer(o.Check)
		defer right.close()
		if fail := right.choose(ctx, o.Model); fail != nil {
			return nil, fmt.Errorf("%s: %w", o.Check, fail)
		}
	}
	d := &drive{o: o, server: s, record: newRecord()}
	every(o, func() string { return d.record.progress(o) }, func() { d.run(ctx) })
	rep := d.record.report(o, s.model)
	if right != nil {
		rep.Check = check(force, o, right, d.record.unchecked).report()
	}
	return rep, nil
}
