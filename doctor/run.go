package doctor

import (
	"fmt"
	"strings"
)

// Options are what is to be looked at.
type Options struct {
	// Model is a GGUF file; empty looks at none. LlamaLib is the folder of llama.cpp's libraries;
	// empty looks for them.
	Model, LlamaLib string
	// Ports are addresses that the program's processes listen on if nothing else is said.
	Ports []Port
}

// Port is an address and whose it is.
type Port struct{ Addr, Whose string }

// patient is a machine that is looked at.
type patient struct {
	Probes
	Options
	Report
	llama llama
}

// Run looks at everything.
func Run(p Probes, o Options) *Report {
	d := &patient{Probes: p, Options: o}
	d.lookAtLlama()
	d.lookAtFeatures()
	d.lookAtCores()
	d.lookAtMemory()
	d.lookAtLargePages()
	d.lookAtOpenFiles()
	d.lookAtPorts()
	d.lookAtAgents()
	if o.Model != "" {
		d.lookAtModel()
	}
	return &d.Report
}

func (d *patient) lookAtFeatures() {
	found := "none of those that are looked for"
	if len(d.Features) > 0 {
		found = strings.Join(d.Features, ", ")
	}
	switch {
	case d.Arch == "amd64" && !strings.Contains(found, "AVX2"):
		d.add("cpu", Warn, "expect it to be slow; nothing else is wrong with it", "%s: no AVX2", found)
	default:
		d.add("cpu", OK, "", "%s: %s", d.Arch, found)
	}
}

func (d *patient) lookAtPorts() {
	for _, p := range d.Ports {
		if err := d.Listen(p.Addr); err != nil {
			d.add("port", Warn, "give "+p.Whose+" another address with its --listen or --agent-listen", "%s (%s): %v", p.Addr, p.Whose, err)
			continue
		}
		d.add("port", OK, "", "%s is free (%s)", p.Addr, p.Whose)
	}
}

func (d *patient) lookAtOpenFiles() {
	const name, good, least = "open files", 4096, 256
	soft, hard, err := d.OpenFiles()
	do := fmt.Sprintf("ulimit -n %d", min(65536, hard))
	switch {
	case err != nil:
		d.add(name, Warn, "", "the limit is unknown: %v", err)
	case soft < least:
		d.add(name, Fail, do, "at most %d: too few for connections and models", soft)
	case soft < good:
		d.add(name, Warn, do, "at most %d: each client, and each peer, needs some", soft)
	default:
		d.add(name, OK, "", "at most %d", soft)
	}
}
