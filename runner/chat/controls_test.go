package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvferry/runner"
)

// letters is a tokenizer with a token a byte, from 1000 on.
type letters struct{}

func (letters) Encode(s string) (out []int32) {
	for i := range len(s) {
		out = append(out, 1000+int32(s[i]))
	}
	return out
}

func (letters) Bytes(token int32) []byte { return []byte{byte(token - 1000)} }

// control gives the control tokens of a prompt, and the text of all between them.
func split(tokens []int32) (control []int32, texts []string) {
	texts = []string{""}
	for _, id := range tokens {
		if id < 1000 {
			control = append(control, id)
			texts = append(texts, "")
			continue
		}
		texts[len(texts)-1] += string(letters{}.Bytes(id))
	}
	return control, texts
}

var ours = map[string]int32{"<|im_start|>": 1, "<|im_end|>": 2, "<s>": 3, "</s>": 4, "[INST]": 5, "<|im": 6, "\u2581": 7, "<<|": 8}

func template(t testing.TB, source string) *Template {
	t.Helper()
	tmpl, err := New(runner.Chat{Template: source, BOS: "<s>", EOS: "</s>", Control: ours})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// TestControlTokens: the template's control tokens are control tokens, and what is between two of
// them is tokenised in one piece.
//
// req: SERVE-05
func TestControlTokens(t *testing.T) {
	tmpl := template(t, "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n")
	tokens, err := tmpl.Tokens([]Message{{"user", "Hello"}, {"assistant", "Hi \u00e9"}}, letters{}, day)
	if err != nil {
		t.Fatal(err)
	}
	control, texts := split(tokens)
	if want := []int32{3, 1, 2, 1, 2, 1}; !slices.Equal(control, want) {
		t.Errorf("control tokens %v, want %v", control, want)
	}
	if want := []string{"", "", "user\nHello", "\n", "assistant\nHi \u00e9", "\n", "assistant"}; !slices.Equal(texts, want) {
		t.Errorf("texts %q, want %q", texts, want)
	}
}

// TestMessagesStayText: whatever a message says, alone or with what stands beside it, there are no
// more control tokens than the template wrote, and the message is in the prompt as it was said.
//
// req: SERVE-05
func TestMessagesStayText(t *testing.T) {
	for _, source := range []string{
		"{% for m in messages %}{{ m.content }}{% endfor %}",
		"{% for m in messages %}{{ m.content | trim }}{% endfor %}",
		"{% for m in messages %}<{{ m.content }}>{% endfor %}",
		"{% for m in messages %}<|{{ m.content }}|>{% endfor %}",
		"{% set all = messages | map(attribute='content') | join %}{{ all }}{{ all[1:] }}{{ all[2:] }}",
		"{% for m in messages %}{{ m.content[1:] }}{% endfor %}",
	} {
		// A template that counts characters counts marks too, and can cut off the one before a
		// control token of one character.
		counts := strings.Contains(source, ":]")
		known := maps.Clone(ours)
		if counts {
			delete(known, "\u2581")
		}
		tmpl, err := New(runner.Chat{Template: source, Control: known})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			piece := rapid.SampledFrom([]string{
				"<", "<|", "|", "|>", ">", "im", "im_", "start", "end", "_", "s", "/", "</", "[", "INST", "]", " ", "\n", "a", "\ue000", "\ue001", "\u2581",
				"<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "<|im", "<<|", "\u00e9",
			})
			var messages []Message
			for range rapid.IntRange(1, 4).Draw(t, "messages") {
				messages = append(messages, Message{"user", strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")})
			}
			tokens, err := tmpl.Tokens(messages, letters{}, day)
			if err != nil {
				t.Fatal(err)
			}
			control, texts := split(tokens)
			if len(control) > 0 {
				t.Fatalf("%q: control tokens %v of %q", source, control, messages)
			}
			bare, err := tmpl.render(messages, day)
			if err != nil || !counts && texts[0] != bare {
				t.Fatalf("%q: text %q, want %q (%v)", source, texts[0], bare, err)
			}
		})
	}
}

// TestOrdinaryMessagesAreNotMarked: templates see what most messages say as it is.
func TestOrdinaryMessagesAreNotMarked(t *testing.T) {
	m, err := newControls(ours).marker("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"", " \n", "Hello, world!", " a < b, c > d ", "<b>bold</b>, [INS]", "<think>\nyes\n</think>\n\nno", "<tool_response>x</tool_response>"} {
		if got := m.text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	for s, want := range map[string]string{
		" <s> ":      " <*s> ",
		"x<|im_end|": "x<*|im_end|*",
		"nd|>x":      "*nd|>x",
		"_start":     "*_start*",
		"a\u2581":    "a*\u2581",
	} {
		if got := strings.ReplaceAll(m.text(s), string(m.mark), "*"); got != want {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
	}
}

// TestMarksAreChosen: a mark is a character that nobody uses, and there may be none left.
func TestMarksAreChosen(t *testing.T) {
	c := newControls(map[string]int32{"\ue002": 1})
	m, err := c.marker("\ue000", []Message{{"user", "\ue001\ue003"}})
	if err != nil || m.mark != 0xe004 {
		t.Errorf("mark %U, %v", m.mark, err)
	}
	var all strings.Builder
	for r := rune(firstMark); r <= lastMark; r++ {
		all.WriteRune(r)
	}
	if _, err := template(t, "{{ messages[0].content }}").Tokens([]Message{{"user", all.String()}}, letters{}, day); err == nil {
		t.Error("a mark was found where every one is used")
	}
}

// TestDevelopers: developer messages are system messages to a template that knows no developers.
func TestDevelopers(t *testing.T) {
	for source, want := range map[string]string{
		"{{ messages[0].role }}": "system",
		"{{ messages[0].role }}{% if 'developer' == 1 %}{% endif %}": "developer",
	} {
		tokens, err := template(t, source).Tokens([]Message{{"developer", "x"}}, letters{}, day)
		if _, texts := split(tokens); err != nil || texts[0] != want {
			t.Errorf("%q: %q, %v", source, texts, err)
		}
	}
}

// BenchmarkTokens renders a chat of 40 messages.
func BenchmarkTokens(b *testing.B) {
	many := map[string]int32{}
	for i := range int32(1000) {
		many[fmt.Sprintf("<|reserved_%d|>", i)] = i
	}
	many["<|im_start|>"], many["<|im_end|>"] = 1, 2
	tmpl, err := New(runner.Chat{Template: "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", Control: many})
	if err != nil {
		b.Fatal(err)
	}
	messages := make([]Message, 40)
	for i := range messages {
		messages[i] = Message{"user", strings.Repeat("Some words that somebody said. ", 20)}
	}
	for b.Loop() {
		if _, err := tmpl.Tokens(messages, letters{}, day); err != nil {
			b.Fatal(err)
		}
	}
}
