package router

import (
	"cmp"
	"slices"

	"kvferry/openai"
)

// Pool holds the engines that the router was told of, and which of them can be chosen. It
// has one owner and no lock.
type Pool struct {
	engines []member
	// turn counts picks. The engine that was picked longest ago is next, which is a round
	// robin that stays fair when engines come, go, or serve different models.
	turn uint64
}

type member struct {
	Engine
	picked uint64
	// news counts what was learnt of the engine, so that the answer to a poll that began
	// before a request found the engine dead does not bring it back.
	news uint64
}

// NewPool makes a pool of engines by URL. None is ready before it reported.
func NewPool(prefill, decode []string) *Pool {
	p := &Pool{}
	add := func(role Role, urls []string) {
		for _, u := range urls {
			e := Engine{Index: len(p.engines), Role: role, URL: u, Why: "has not answered yet"}
			p.engines = append(p.engines, member{Engine: e})
		}
	}
	add(Prefill, prefill)
	add(Decode, decode)
	return p
}

// Engines gives all engines as they are now, prefill first, in the order they were given.
func (p *Pool) Engines() []Engine {
	all := make([]Engine, len(p.engines))
	for i := range p.engines {
		all[i] = p.engines[i].Engine
	}
	return all
}

// Poll is one question to an engine; its answer counts only while nothing newer is known.
type Poll struct {
	engine int
	news   uint64
}

// Ask notes that a poll of engine i begins.
func (p *Pool) Ask(i int) Poll { return Poll{engine: i, news: p.engines[i].news} }

// Change is what an answer or a failure changed in the pool.
type Change struct {
	// Engine is how it is now.
	Engine Engine
	// Turned says that Ready is another than before, or that an engine that is not ready
	// has another reason.
	Turned bool
	// NewLife says that another process answers at the engine's URL than the last time.
	NewLife bool
}

// Answered takes an engine's answer to a poll.
func (p *Pool) Answered(poll Poll, r Report) Change {
	m := &p.engines[poll.engine]
	if poll.news != m.news {
		return Change{Engine: m.Engine}
	}
	why := r.fault(m.Role)
	// An engine that starts or ends may not know all of itself; what it leaves out is as before.
	r.Life, r.Model = cmp.Or(r.Life, m.Report.Life), cmp.Or(r.Model, m.Report.Model)
	newLife := m.Report.Life != "" && r.Life != m.Report.Life
	m.Report = r
	c := m.set(why)
	c.NewLife = newLife
	return c
}

// Silent takes a poll that got no usable answer: the engine cannot be chosen.
func (p *Pool) Silent(poll Poll, why string) Change {
	m := &p.engines[poll.engine]
	if poll.news != m.news {
		return Change{Engine: m.Engine}
	}
	return m.set(why)
}

// Lost takes an engine whose connection failed under a request, and which is not chosen again
// until a poll that begins after this says otherwise. It is known by the life that the request
// was given to: a process that was started since is not blamed for the one before.
func (p *Pool) Lost(i int, life, why string) Change {
	m := &p.engines[i]
	if m.Report.Life != life {
		return Change{Engine: m.Engine}
	}
	return m.set(why)
}

// set makes the engine ready, or not ready for a reason.
func (m *member) set(why string) Change {
	m.news++
	turned := why != m.Why
	m.Ready, m.Why = why == "", why
	return Change{Engine: m.Engine, Turned: turned}
}

// Ready says whether a pair can be made.
func (p *Pool) Ready() bool {
	return slices.ContainsFunc(p.Models(), func(m Model) bool {
		return p.next(Prefill, m.Name, nil) != nil && p.next(Decode, m.Name, nil) != nil
	})
}

// Model is a model that ready engines serve.
type Model struct {
	Name string
	// Context is the longest sequence in tokens that fits all its engines; 0 if none says.
	Context int
}

// Models are the models that ready engines serve, by name.
func (p *Pool) Models() []Model {
	var models []Model
	for i := range p.engines {
		r := p.engines[i].Report
		if !p.engines[i].Ready {
			continue
		}
		at, found := slices.BinarySearchFunc(models, r.Model, func(m Model, name string) int {
			return cmp.Compare(m.Name, name)
		})
		if !found {
			models = slices.Insert(models, at, Model{Name: r.Model, Context: r.Context})
		} else if c := &models[at].Context; *c == 0 || r.Context > 0 && r.Context < *c {
			*c = r.Context
		}
	}
	return models
}

// Choice is what a request wants of its pair.
type Choice struct {
	Model string
	// Near is the place of a decode engine that is preferred, if it is ready; -1 is none.
	Near int
	// Alone takes a decode engine even if no prefill engine is ready.
	Alone bool
}

// Pick chooses the pair for a request. The decode engine is chosen first: without one, no
// prefill engine is put to work. An error is the client's answer. // case: 16
func (p *Pool) Pick(c Choice) (Pair, *openai.Error) {
	if err := p.known(c.Model); err != nil {
		return Pair{}, err
	}
	d := p.near(c)
	if d == nil {
		return Pair{}, noEngine(Decode)
	}
	pr := p.next(Prefill, c.Model, nil)
	if pr == nil && !c.Alone {
		return Pair{}, noEngine(Prefill)
	}
	// Both at once, or a pair that lacks one half would take the other's turn.
	p.take(d)
	if pr == nil {
		return Pair{Decode: d.Engine}, nil
	}
	p.take(pr)
	return Pair{Prefill: pr.Engine, Decode: d.Engine}, nil
}

// near is the decode engine that is preferred, or the one whose turn it is.
func (p *Pool) near(c Choice) *member {
	if c.Near >= 0 && c.Near < len(p.engines) && p.engines[c.Near].serves(Decode, c.Model) {
		return &p.engines[c.Near]
	}
	return p.next(Decode, c.Model, nil)
}

// Other chooses a ready engine for a request that failed on those.
func (p *Pool) Other(role Role, model string, not []int) (Engine, bool) {
	m := p.next(role, model, not)
	if m == nil {
		return Engine{}, false
	}
	p.take(m)
	return m.Engine, true
}

// Lives says whether the engine at a place is still the life that it was, as far as is known.
func (p *Pool) Lives(i int, life string) bool {
	return i >= 0 && i < len(p.engines) && p.engines[i].Report.Life == life
}

// known refuses a model that no engine serves. A model whose engines are only down just now
// is known, and so is any while nothing is ready: the router cannot tell then.
func (p *Pool) known(model string) *openai.Error {
	some := false
	for i := range p.engines {
		m := &p.engines[i]
		if m.Report.Model == model {
			return nil
		}
		some = some || m.Ready
	}
	if !some {
		return noEngine(Decode)
	}
	return openai.ModelNotFound(model)
}

// next is the ready engine of a role and model whose turn it is and that is none of those, or
// nil.
func (p *Pool) next(role Role, model string, not []int) *member {
	var best *member
	for i := range p.engines {
		m := &p.engines[i]
		if !m.serves(role, model) || slices.Contains(not, i) {
			continue
		}
		if best == nil || m.picked < best.picked {
			best = m
		}
	}
	return best
}

func (m *member) serves(role Role, model string) bool {
	return m.Role == role && m.Ready && m.Report.Model == model
}

func (p *Pool) take(m *member) {
	p.turn++
	m.picked = p.turn
}
