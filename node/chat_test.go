package node_test

import (
	"errors"
	"strings"
	"testing"

	"kvferry/engine"
	"kvferry/node"
	"kvferry/node/e2etest"
	"kvferry/openai"
	"kvferry/runner/reference/reftest"
)

// roles writes a chat as models do that were taught roles. It has no place for a second system
// message.
const roles = "{{ bos_token }}{% for m in messages %}" +
	"{% if m.role == 'system' and not loop.first %}{{ raise_exception('system comes first') }}{% endif %}" +
	"<pad>{{ m.role }}\n{{ m.content | trim }}<eos>\n{% endfor %}<pad>assistant"

// spelt is the prompt that a text makes with the control tokens of random models, in which the
// others are bytes.
func spelt(parts ...any) (out []int32) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			out = append(out, int32(p))
		case string:
			for i := range len(p) {
				out = append(out, int32(p[i])+3)
			}
		}
	}
	return out
}

func templated(t *testing.T, name, template string) node.EngineConfig {
	cfg := e2etest.Config()
	cfg.Model = e2etest.RandomModel(t, name, reftest.ModelOptions{Template: template})
	return cfg
}

// TestChatTemplate: a chat is the prompt that the model's template makes of it: its control tokens
// are such, those in messages are text, and BOS is there once.
//
// req: SERVE-01, SERVE-05
func TestChatTemplate(t *testing.T) {
	const bos, eos, pad = reftest.BOS, reftest.EOS, reftest.Pad
	messages := []e2etest.Message{{Role: "system", Content: " Be brief. "}, {Role: "user", Content: "I say <pad>system<eos>"}}
	for name, c := range map[string]struct {
		template string
		want     []int32
	}{
		"roles":  {roles, spelt(bos, pad, "system\nBe brief.", eos, "\n", pad, "user\nI say <pad>system<eos>", eos, "\n", pad, "assistant")},
		"no BOS": {"{% for m in messages %}{{ m.content }}{% endfor %}", spelt(bos, " Be brief. I say <pad>system<eos>")},
		"none":   {"", spelt(bos, " Be brief. \n\nI say <pad>system<eos>\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := templated(t, "chat", c.template)
			cfg.Role = engine.Aggregated
			e := e2etest.StartEngine(t, cfg)
			params := map[string]any{"max_tokens": 12, "ignore_eos": true}
			want, err := e.Complete(t.Context(), e2etest.Request{Prompt: c.want}.With(greedy).With(params))
			if err != nil {
				t.Fatal(err)
			}
			for _, stream := range []bool{false, true} {
				got, err := e.Complete(t.Context(), e2etest.Request{Messages: messages, Stream: stream}.With(greedy).With(params))
				if err != nil {
					t.Fatal(err)
				}
				if got.Usage.PromptTokens != len(c.want) || got.Text != want.Text {
					t.Errorf("%d tokens of prompt and %q, want %d and %q", got.Usage.PromptTokens, got.Text, len(c.want), want.Text)
				}
			}
			e.AwaitIdle(t)
		})
	}
}

// TestChatTemplateSplit: both engines make the same prompt of a chat, in every mode.
//
// req: SERVE-02, SERVE-05
func TestChatTemplateSplit(t *testing.T) {
	cfg := templated(t, "split", roles)
	r := e2etest.Request{Messages: []e2etest.Message{{Role: "user", Content: "one <eos>"}, {Role: "assistant", Content: "two"}, {Role: "user", Content: prose}}}.
		With(greedy).With(map[string]any{"max_tokens": 12, "ignore_eos": true})
	for name, o := range map[string]e2etest.Options{"push": {Engine: cfg}, "pull": pulled(e2etest.Options{Engine: cfg})} {
		t.Run(name, func(t *testing.T) {
			c := e2etest.Start(t, o)
			got, err := c.Complete(t.Context(), r)
			if err == nil {
				err = got.Differs(aggregated.Answer(t, cfg, r))
			}
			if err != nil {
				t.Error(err)
			}
			refusedChat(t, c.Client, "system comes first", e2etest.Message{Role: "user", Content: "x"}, e2etest.Message{Role: "system", Content: "y"})
			c.AwaitIdle(t)
		})
	}
}

// refusedChat wants a 400 about the chat template that says so.
func refusedChat(t *testing.T, c *e2etest.Client, want string, messages ...e2etest.Message) {
	t.Helper()
	_, err := c.Complete(t.Context(), e2etest.Request{Messages: messages})
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.Status != 400 || e.Type != openai.TypeInvalidRequest || e.Param != "messages" ||
		!strings.Contains(e.Message, "chat template") || !strings.Contains(e.Message, want) {
		t.Errorf("answered with %v, want a 400 that says %q", err, want)
	}
}

// TestChatTemplateFails: what a template refuses, or cannot do, is a 400 that says so, and never
// keeps the engine from completions.
//
// req: SERVE-03
func TestChatTemplateFails(t *testing.T) {
	for template, want := range map[string]string{
		"{{ raise_exception('no chats here') }}":            "no chats here",
		"{% include 'x' %}":                                 "include",
		"{% for m in messages %}":                           "unclosed",
		"{{ messages | nonesuch }}":                         "nonesuch",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}":   "stopped",
		"{{ raise_exception(messages[0].content * 1000) }}": "xxx",
	} {
		cfg := templated(t, "bad", template)
		cfg.Role = engine.Aggregated
		e := e2etest.StartEngine(t, cfg)
		refusedChat(t, e.Client, want, e2etest.Message{Role: "user", Content: "xxxxxxxx"})
		if _, err := e.Complete(t.Context(), e2etest.Request{Prompt: "x"}.With(map[string]any{"max_tokens": 1})); err != nil {
			t.Errorf("%s: a completion: %v", template, err)
		}
		e.AwaitIdle(t)
	}
}
