package e2etest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"kvferry/openai"
)

// Answer is all that an answer says, however it was sent.
type Answer struct {
	Text   string
	Tokens []Token
	Reason openai.FinishReason
	Usage  openai.Usage
	// Timing is the Server-Timing trailer.
	Timing string
	// First is the time until the first event of a stream that has a choice, Whole until the end.
	First, Whole time.Duration
}

// Token is a generated token, if logprobs were asked for.
type Token struct {
	Name    string
	Logprob float64
	Top     map[string]float64
}

// Differs says where two answers differ in anything that is to be equal: text, tokens with
// their logprobs to the last bit, reason and usage, but for what a cache had of it. SERVE-02
func (a *Answer) Differs(b *Answer) error {
	for i := range min(len(a.Tokens), len(b.Tokens)) {
		if !reflect.DeepEqual(a.Tokens[i], b.Tokens[i]) {
			return fmt.Errorf("token %d is %+v and %+v", i, a.Tokens[i], b.Tokens[i])
		}
	}
	switch {
	case len(a.Tokens) != len(b.Tokens):
		return fmt.Errorf("%d and %d tokens", len(a.Tokens), len(b.Tokens))
	case a.Text != b.Text:
		return fmt.Errorf("text is %q and %q", a.Text, b.Text)
	case a.Reason != b.Reason:
		return fmt.Errorf("finish reason is %q and %q", a.Reason, b.Reason)
	case a.Usage.PromptTokens != b.Usage.PromptTokens || a.Usage.CompletionTokens != b.Usage.CompletionTokens:
		return fmt.Errorf("usage is %+v and %+v", a.Usage, b.Usage)
	}
	return nil
}

// Took is a duration of the Server-Timing trailer, false if it is not there.
func (a *Answer) Took(name string) (time.Duration, bool) {
	for entry := range strings.SplitSeq(a.Timing, ", ") {
		if ms, ok := strings.CutPrefix(entry, name+";dur="); ok {
			f, err := strconv.ParseFloat(ms, 64)
			return time.Duration(f * float64(time.Millisecond)), err == nil
		}
	}
	return 0, false
}

// whole reads an answer that is not streamed.
func (a *Answer) whole(body []byte, chat bool) error {
	if chat {
		var r openai.ChatResponse
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		if len(r.Choices) != 1 || r.Usage == nil || r.Choices[0].FinishReason == nil {
			return fmt.Errorf("not a whole chat answer: %s", body)
		}
		c := r.Choices[0]
		a.Text, a.Reason, a.Usage = c.Message.Content, *c.FinishReason, *r.Usage
		a.chatTokens(c.Logprobs)
		return nil
	}
	var r openai.CompletionResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if len(r.Choices) != 1 || r.Usage == nil || r.Choices[0].FinishReason == nil {
		return fmt.Errorf("not a whole completion: %s", body)
	}
	c := r.Choices[0]
	a.Text, a.Reason, a.Usage = c.Text, *c.FinishReason, *r.Usage
	a.completionTokens(c.Logprobs)
	return nil
}

func (a *Answer) completionTokens(l *openai.CompletionLogprobs) {
	if l == nil {
		return
	}
	for i, name := range l.Tokens {
		t := Token{Name: name, Logprob: l.TokenLogprobs[i]}
		if l.TopLogprobs != nil {
			t.Top = l.TopLogprobs[i]
		}
		a.Tokens = append(a.Tokens, t)
	}
}

func (a *Answer) chatTokens(l *openai.ChatLogprobs) {
	if l == nil {
		return
	}
	for _, c := range l.Content {
		t := Token{Name: fmt.Sprint(c.Bytes), Logprob: c.Logprob, Top: map[string]float64{}}
		for _, alt := range c.TopLogprobs {
			t.Top[fmt.Sprint(alt.Bytes)] = alt.Logprob
		}
		a.Tokens = append(a.Tokens, t)
	}
}

// Stream is an answer as it comes. Its request's context ends it.
type Stream struct {
	// Answer is what came so far.
	Answer
	resp   *http.Response
	events *openai.Reader
	chat   bool
	began  time.Time
}

const maxEvent = 4 << 20

func newStream(resp *http.Response, chat bool, began time.Time) *Stream {
	return &Stream{resp: resp, events: openai.NewReader(resp.Body, maxEvent), chat: chat, began: began}
}

// Next takes the next event. It gives io.EOF after the end mark, and an *openai.Error for a
// stream that ends with one.
func (s *Stream) Next() error {
	ev, err := s.events.Next()
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the stream has no end mark: %w", io.ErrUnexpectedEOF)
	case err != nil:
		return err
	case ev.Done():
		s.Whole = time.Since(s.began)
		// The trailer comes after the last event.
		if _, err := io.Copy(io.Discard, s.resp.Body); err != nil {
			return err
		}
		s.Timing = s.resp.Trailer.Get("Server-Timing")
		return io.EOF
	}
	if failed, ok := openai.StreamError(ev.Data); ok {
		return failed
	}
	if s.chat {
		return s.chatEvent(ev.Data)
	}
	return s.completionEvent(ev.Data)
}

func (s *Stream) chatEvent(data []byte) error {
	var c openai.ChatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	s.usage(c.Usage)
	for _, choice := range c.Choices {
		if choice.Delta.Content != nil {
			s.Text += *choice.Delta.Content
		}
		s.chatTokens(choice.Logprobs)
		s.choice(choice.FinishReason)
	}
	return nil
}

func (s *Stream) completionEvent(data []byte) error {
	var c openai.CompletionChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	s.usage(c.Usage)
	for _, choice := range c.Choices {
		s.Text += choice.Text
		s.completionTokens(choice.Logprobs)
		s.choice(choice.FinishReason)
	}
	return nil
}

func (s *Stream) usage(u *openai.Usage) {
	if u != nil {
		s.Usage = *u
	}
}

func (s *Stream) choice(reason *openai.FinishReason) {
	if s.First == 0 {
		s.First = time.Since(s.began)
	}
	if reason != nil {
		s.Reason = *reason
	}
}

// Rest reads the stream to its end.
func (s *Stream) Rest() (*Answer, error) {
	defer s.resp.Body.Close()
	for {
		err := s.Next()
		if errors.Is(err, io.EOF) {
			return &s.Answer, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Close gives the answer up.
func (s *Stream) Close() { s.resp.Body.Close() }
