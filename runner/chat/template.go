package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"

	"kvferry/runner"
)

// Message is one message of a chat. Its role is taken as the template's own text, so it must be
// one of a fixed set.
type Message struct{ Role, Content string }

// Template is a model's chat template. It is safe for concurrent use.
type Template struct {
	chat     runner.Chat
	compiled *jinja.Template
	controls controls
}

// New compiles a model's template, which must not be empty. An error says what of it is not
// supported.
func New(c runner.Chat) (*Template, error) {
	source, err := rewrite(c.Template)
	if err != nil {
		return nil, err
	}
	t := &Template{chat: c, controls: newControls(c.Control)}
	err = recovered(func() error {
		t.compiled, err = jinja.Compile(source)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Tokens is the prompt of messages, up to where the answer begins. BOS is in it only if the
// template writes it. A template that refuses the messages, or had to be stopped, is an error. day
// is what the template takes for the present: it is told the day, and no time of it, because the
// engines that share a request must make the same prompt of it.
func (t *Template) Tokens(messages []Message, tok runner.Tokenizer, day time.Time) ([]int32, error) {
	m, err := t.controls.marker(t.chat.Template, messages)
	if err != nil {
		return nil, err
	}
	rendered, err := t.render(m.all(t.known(messages)), day)
	if err != nil {
		return nil, err
	}
	return t.controls.encode(rendered, m.mark, tok), nil
}

// known gives developer messages the role of system messages where the template has not heard of
// developers.
func (t *Template) known(messages []Message) []Message {
	const developer, system = "developer", "system"
	if strings.Contains(t.chat.Template, developer) {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		if messages[i].Role == developer {
			messages[i].Role = system
		}
	}
	return messages
}

// render runs the template.
func (t *Template) render(messages []Message, day time.Time) (string, error) {
	said := 0
	list := make([]jinja.Value, len(messages))
	for i, m := range messages {
		said += len(m.Content)
		list[i] = jinja.NewDict()
		list[i].AsDict().Set("role", jinja.NewString(m.Role))
		list[i].AsDict().Set("content", jinja.NewString(m.Content))
	}
	g := newGuard(said)
	globals := globals(g, day)
	globals["messages"] = jinja.NewList(list)
	globals["bos_token"] = jinja.NewString(t.chat.BOS)
	globals["eos_token"] = jinja.NewString(t.chat.EOS)
	var out string
	err := recovered(func() (err error) {
		out, err = t.compiled.RenderValues(globals)
		return err
	})
	if err != nil {
		return "", err
	}
	return out, g.made(len(out))
}

// errInternal is in the errors of what the library could not take.
var errInternal = errors.New("it makes the template library fail")

// recovered makes an error of the library's panics, which templates can bring about.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errInternal, p)
		}
	}()
	return f()
}
