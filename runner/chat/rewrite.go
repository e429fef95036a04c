package chat

import (
	"fmt"
	"regexp"
	"strings"
)

// What a rewritten template calls and sets. No template may use these names.
const (
	reserved   = "kvferry_"
	callStep   = reserved + "step"
	callEnter  = reserved + "enter"
	callLeave  = reserved + "leave"
	callMade   = reserved + "made"
	callFilter = reserved + "filter"

	// The library keeps what a pass of a loop sets for the next pass, and Jinja does not. So each
	// pass is a loop of its own, of one pass, which has the real one's loop variable, and tells it
	// by flow to stop.
	openPass = "{% set kvferry_loop = loop %}{% set kvferry_flow = namespace(stop=false) %}" +
		"{% for kvferry_pass in [0] %}{% set loop = kvferry_loop %}"
	closePass = "{% endfor %}{% if kvferry_flow.stop %}{% break %}{% endif %}"
	stopAll   = "{% set kvferry_flow.stop = true %}"
	stopPass  = "{% break %}"
)

// target is what an assignment with a value sets.
var target = regexp.MustCompile(`^\s*set\s+([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\s*=`)

// rewrite puts calls of the guard into a template's source, and its texts in a form that leaves
// the library nothing to trim.
func rewrite(source string) (string, error) {
	switch {
	case len(source) > maxSource:
		return "", fmt.Errorf("it has %d bytes and the limit is %d", len(source), maxSource)
	case strings.Contains(source, reserved):
		return "", fmt.Errorf("names that begin with %s are kvferry's own", reserved)
	}
	parts, err := scan(source)
	if err != nil {
		return "", err
	}
	var w writer
	for _, p := range parts {
		switch p.kind {
		case text:
			w.WriteString("{{" + constant(p.content) + "}}")
		case output:
			w.WriteString("{{ " + tidy(p.content) + " }}")
		default:
			w.statement(p.content)
		}
	}
	return w.String(), nil
}

// writer writes a template.
type writer struct {
	strings.Builder
	// open has a word for each block that is open: if, for, or done for a loop whose passes are
	// written.
	open []string
}

const done = "done"

func (w *writer) top() string {
	if len(w.open) == 0 {
		return ""
	}
	return w.open[len(w.open)-1]
}

func (w *writer) pop() {
	if len(w.open) > 0 {
		w.open = w.open[:len(w.open)-1]
	}
}

// statement writes a statement, and what goes before and behind it.
func (w *writer) statement(content string) {
	word := keyword(content)
	switch word {
	case "endmacro", "endcall":
		w.call(callLeave, "")
	case "else":
		if w.top() == "for" {
			w.WriteString(closePass)
			w.open[len(w.open)-1] = done
		}
	case "endif":
		w.pop()
	case "endfor":
		if w.top() == "for" {
			w.WriteString(closePass)
		}
		w.pop()
	case "break":
		w.WriteString(stopAll)
	case "continue":
		w.WriteString(stopPass)
		return
	}
	w.WriteString("{% " + tidy(content) + " %}")
	switch word {
	case "if":
		w.open = append(w.open, word)
	case "for":
		w.open = append(w.open, word)
		w.call(callStep, "")
		w.WriteString(openPass)
	case "macro", "call":
		w.call(callEnter, "")
	case "set":
		if m := target.FindStringSubmatch(content); m != nil {
			w.call(callMade, m[1])
		}
	}
}

// call writes a call that makes no text.
func (w *writer) call(name, arg string) {
	w.WriteString("{% if " + name + "(" + arg + ") %}{% endif %}")
}

// byFilter is what stands before a filter's name in a form of map that the library reads over.
var byFilter = regexp.MustCompile(`\|\s*map\s*\(\s*$`)

// tidy writes a tag's content so that the library reads it as Jinja does: with a space before each
// brace that closes something, so that no two of them look like the tag's end, and with an error
// where map would be given a filter.
func tidy(content string) string {
	var b strings.Builder
	for i := 0; i < len(content); i++ {
		n := 0
		switch content[i] {
		case '\'', '"':
			n = quoted(content[i:])
			if byFilter.MatchString(content[max(0, i-64):i]) {
				b.WriteString(callFilter + "() ~ ")
			}
		case '}':
			b.WriteByte(' ')
		}
		last := min(i+n, len(content)-1)
		b.WriteString(content[i : last+1])
		i = last
	}
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func constant(s string) string { return "'" + escaper.Replace(s) + "'" }
