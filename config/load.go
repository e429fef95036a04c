package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Use is what a configuration is for.
type Use uint8

// The uses, one for each command that takes settings.
const (
	// Check judges the settings and runs nothing.
	Check Use = iota
	// Up starts all processes on this host.
	Up
	// Router needs the engines' addresses.
	Router
	// Prefill and Decode each are about their own section.
	Prefill
	Decode
	// Serve is an aggregated engine, which has the settings of a prefill engine.
	Serve
)

// sections are those that a use's flags change.
func (u Use) sections() []string {
	switch u {
	case Prefill, Serve:
		return []string{contextServers}
	case Decode:
		return []string{generationServers}
	default:
		return []string{contextServers, generationServers}
	}
}

// alike lets the engines that nobody said anything about be like the one that a use is about,
// as they must be in some of it.
func (u Use) alike(c Config) Config {
	switch u {
	case Prefill, Serve:
		c.GenerationServers = c.ContextServers
	case Decode:
		c.ContextServers = c.GenerationServers
	}
	return c
}

// own are the findings that are not about a section beside the use's.
func (u Use) own(all []Finding) []Finding {
	return slices.DeleteFunc(all, func(f Finding) bool {
		inSection := within(f.Path, contextServers) || within(f.Path, generationServers)
		return inSection && !slices.ContainsFunc(u.sections(), func(s string) bool { return within(f.Path, s) })
	})
}

// CheckEngine judges one engine's settings by themselves, for a use that is about one engine: it
// resolves them and refuses what this program cannot run. The error is an *Error.
func CheckEngine(u Use, s Servers) error {
	c, _, faults := resolve(Config{ContextServers: s, GenerationServers: s})
	return faulty("", u.own(firstOfKey(append(faults, unbuilt(c)...))))
}

// Source is all that is said about settings.
type Source struct {
	Use Use
	// File is the file's name for messages, Data what it holds; nil is no file.
	File      string
	Data      []byte
	Overrides Overrides
}

// Load gives the resolved settings of a file with flags over it. The error is an *Error with
// every fault of either; with one there are no warnings. For Check, what cannot run yet is a
// warning; for all other uses it is a fault (PIPE-24).
func Load(s Source) (c Config, warnings []Finding, err error) {
	p := parsed{config: s.base(), places: map[string]Place{}}
	if s.Data != nil {
		p = parse(s.Data)
	}
	flags := s.Overrides.apply(&p, s.Use)
	if s.Data == nil {
		p.config = s.Use.alike(p.config)
	}
	c, warnings, faults := resolve(p.config)
	if s.Use == Check {
		warnings = append(warnings, unbuilt(c)...)
	} else {
		faults = append(faults, unbuilt(c)...)
	}
	faults = firstOfKey(append(faults, demands(c, s.Use)...))
	if s.Data == nil {
		faults, warnings = s.Use.own(faults), s.Use.own(warnings)
	}
	faults = append(p.faults, p.locate(consequent(faults, p.faults), flags)...)
	if len(faults) > 0 {
		return c, nil, faulty(s.File, sortFindings(faults))
	}
	return c, sortFindings(p.locate(warnings, flags)), nil
}

// Base is what a use starts from without a file. A file starts from nothing, so that what it
// does not say is the default; `up` without one shows what kvferry is for (PIPE-23).
func Base(u Use) Config {
	var c Config
	for _, s := range c.sides() {
		s.Transceiver.TransceiverRuntime = new(chosenRuntime)
		if u == Up {
			s.Transceiver.EnablePipelinedTransfer = new(true)
		}
	}
	return c
}

// base is what is said without a file. Pipelining is only taken for granted there, so a style
// that does not go with it turns it off, unless a flag asks for it too (PIPE-21).
func (s Source) base() Config {
	c := Base(s.Use)
	if style := s.Overrides.ScheduleStyle; style != nil && *style == ContextFirst {
		for _, side := range c.sides() {
			side.Transceiver.EnablePipelinedTransfer = nil
		}
	}
	return c
}

// demands are what a use wants beside a valid configuration.
func demands(c Config, u Use) (faults []Finding) {
	for _, s := range c.sides() {
		switch {
		case u == Up && len(s.URLs) > 0:
			faults = append(faults, s.at("urls", "up starts engines of its own: leave urls out, or run router with this file"))
		case u == Router && len(s.URLs) == 0:
			faults = append(faults, s.at("urls", "the router needs at least one address"))
		}
	}
	return faults
}

// apply puts what was said over the file's settings, and tells which flag set each key.
func (o Overrides) apply(p *parsed, u Use) map[string]string {
	flags := map[string]string{}
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			continue
		}
		tag := v.Type().Field(i).Tag
		for _, path := range expand(tag.Get("keys"), u) {
			byPath[path].field(&p.config).Set(v.Field(i))
			flags[path] = tag.Get("flag")
			p.forget(path)
		}
	}
	for _, s := range p.config.sides() {
		if flags[s.path+".urls"] != "" {
			s.NumInstances = nil // the file's, which was about the file's addresses
		}
	}
	return flags
}

// forget drops the places of a key that no longer has the file's value.
func (p *parsed) forget(path string) {
	maps.DeleteFunc(p.places, func(k string, _ Place) bool { return within(k, path) })
}

// expand gives the keys of an override's tag, with the use's sections for *.
func expand(tag string, u Use) (paths []string) {
	for _, path := range strings.Split(tag, ",") {
		rest, star := strings.CutPrefix(path, "*")
		if !star {
			paths = append(paths, path)
			continue
		}
		for _, s := range u.sections() {
			paths = append(paths, s+rest)
		}
	}
	return paths
}

// consequent drops the faults that only follow from a fault of form: of a key that could not
// be read nothing more is said.
func consequent(faults, form []Finding) []Finding {
	var out []Finding
	for _, f := range faults {
		follows := false
		for _, b := range form {
			follows = follows || within(f.Path, b.Path)
		}
		if !follows {
			out = append(out, f)
		}
	}
	return out
}

// locate gives findings their places: the flag that set the value, or where in the file the
// value is, or the key that it was inherited from, or the nearest section around it.
func (p parsed) locate(found []Finding, flags map[string]string) []Finding {
	for i := range found {
		f := &found[i]
		for path := f.Path; ; {
			if flag, ok := flags[path]; ok {
				f.Flag = flag
				break
			}
			place, ok := p.places[path]
			if !ok && byPath[path].inherit != "" {
				path = byPath[path].inherit
				continue
			}
			if ok || path == "" {
				f.Place = place
				break
			}
			path = outer(path)
		}
	}
	return found
}

// outer is the list or section that holds a path.
func outer(path string) string {
	if list, _, ok := strings.Cut(path, "["); ok {
		return list
	}
	section, _ := parent(path)
	return section
}
