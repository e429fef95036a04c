package config

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
	"SHM":      {oneSided: true},
	"NIXL":     {oneSided: true},
	"MOONCAKE": {oneSided: true},
	"UCX":      {},
	"MPI":      {},
}

// defaultBackend is what DEFAULT means.
const defaultBackend = "TCP"

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
