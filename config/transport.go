package config

import (
	"fmt"
	"strings"
)

// backend is something that can carry KV.
type backend struct {
	// built: this program has it.
	built bool
	// oneSided: the sender can write into the receiver's memory, which chunks need because the
	// receiver posts one receive for the whole prompt.
	oneSided bool
}

// The backends beside DEFAULT. UCX and MPI are TensorRT-LLM's transceivers of that name, in
// which both sides post each piece.
var backends = map[string]backend{
	"TCP":      {built: true, oneSided: true},
	"SHM":      {built: true, oneSided: true},
	"NIXL":     {built: true, oneSided: true},
	"MOONCAKE": {oneSided: true},
	"UCX":      {},
	"MPI":      {},
}

// The backends that there are. TCP reaches every peer and is always there; the others are used with
// those peers that they reach and that have them, too.
const (
	TCPBackend  = "TCP"
	SHMBackend  = "SHM"
	NIXLBackend = "NIXL"
)

// defaultBackend is what DEFAULT means: shared memory where both engines are on one host.
const defaultBackend = SHMBackend

// NoParams stands where NIXL's backend has no parameters.
const NoParams = "none"

// NIXLParams reads name=value,name=value.
func NIXLParams(s string) (map[string]string, error) {
	if s == NoParams {
		return nil, nil
	}
	params := map[string]string{}
	for _, p := range strings.Split(s, ",") {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s: want name=value,name=value or %s", quote(s), NoParams)
		}
		params[name] = value
	}
	return params, nil
}

// readableParams: NIXL's parameters are in their form.
func readableParams(c Config) (faults []Finding) {
	for _, s := range c.sides() {
		if _, err := NIXLParams(*s.Transceiver.NIXL.Params); err != nil {
			faults = append(faults, s.at("cache_transceiver_config.nixl.params", "%v", err))
		}
	}
	return faults
}

// chosenRuntime is what auto becomes: the one runtime of this program. PYTHON and CPP are
// TensorRT-LLM's.
const chosenRuntime = "go"

// checkTransport refuses a backend or runtime that this program has not got, or that cannot do
// what is asked of it (PIPE-23).
func (s side) checkTransport() (faults []Finding) {
	name, want := *s.Transceiver.Backend, or(byPath[s.path+"."+backendKey].words)
	switch b, ok := backends[name]; {
	case !ok: // DEFAULT, or what check has refused
	case s.pipelined() && !b.oneSided:
		faults = append(faults, s.at(backendKey, "%s: has no one-sided writes, which %s needs: want %s", name, pipelining, want))
	case !b.built:
		faults = append(faults, s.at(backendKey, "%s: is not available in this build: want %s", name, want))
	}
	switch runtime := *s.Transceiver.TransceiverRuntime; {
	case runtime != "PYTHON" && runtime != "CPP":
	case s.pipelined():
		faults = append(faults, s.at(runtimeKey, "%s: cannot do %s here: want auto or %s", runtime, pipelining, chosenRuntime))
	default:
		faults = append(faults, s.at(runtimeKey, "%s: is TensorRT-LLM's, which this program is not: want auto or %s", runtime, chosenRuntime))
	}
	return faults
}

// autoSaid tells of each section whether auto was written there, rather than left unsaid.
func autoSaid(c Config) map[string]bool {
	said := map[string]bool{}
	for _, s := range c.sides() {
		r := s.Transceiver.TransceiverRuntime
		said[s.path] = r != nil && *r == "auto"
	}
	return said
}

// choose makes one concrete backend and runtime of DEFAULT and auto. It warns of the runtime
// where that matters: where auto was written, or pipelining depends on it (PIPE-24).
func (s side) choose(said bool) []Finding {
	t := &s.Transceiver
	if *t.Backend == "DEFAULT" {
		t.Backend = new(defaultBackend)
	}
	if *t.TransceiverRuntime != "auto" {
		return nil
	}
	t.TransceiverRuntime = new(chosenRuntime)
	if !said && !s.pipelined() {
		return nil
	}
	return []Finding{s.at(runtimeKey, "auto: %s was chosen", chosenRuntime)}
}
