package emulated

import (
	"fmt"
	"strconv"
	"strings"
)

// Prefix begins the name of an emulated model where a model is named by one string.
const Prefix = "emulated:"

// spec is what a name asks for.
type spec struct {
	name    string
	m       model
	d       device
	context int
}

// parse reads NAME[@DEVICE][,context=N].
func parse(s string) (spec, error) {
	what, option, optioned := strings.Cut(s, ",")
	name, on, placed := strings.Cut(what, "@")
	m, ok := models[name]
	if !ok {
		return spec{}, fmt.Errorf("%q: want one of %s", name, names(models))
	}
	if !placed {
		on = m.device
	}
	d, err := parseDevice(on)
	if err != nil {
		return spec{}, err
	}
	if weights := 2 * m.params; d.memory > 0 && weights > d.memory {
		return spec{}, fmt.Errorf("%s needs %.0f GB for its weights and %s has %.0f: name several, as in 4xh100",
			name, weights/1e9, on, d.memory/1e9)
	}
	out := spec{name: name, m: m, d: d, context: min(defaultContext, m.trained)}
	if optioned {
		if out.context, err = parseContext(option, m.trained); err != nil {
			return spec{}, err
		}
	}
	return out, nil
}

func parseContext(option string, most int) (int, error) {
	value, ok := strings.CutPrefix(option, "context=")
	if !ok {
		return 0, fmt.Errorf("option %q: want context=N", option)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 2 || n > most {
		return 0, fmt.Errorf("context %q: want 2 to %d", value, most)
	}
	return n, nil
}
