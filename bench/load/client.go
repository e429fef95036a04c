package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"kvferry/openai"
)

// server is one that is asked.
type server struct {
	url, model string
	http       *http.Client
}

func newServer(url string) *server {
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.DisableCompression = 0, 1<<16, true
	return &server{url: strings.TrimSuffix(url, "/"), http: &http.Client{Transport: t}}
}

func (s *server) close() { s.http.CloseIdleConnections() }

// choose takes the model that was named, or the server's first.
func (s *server) choose(ctx context.Context, model string) *Failure {
	if model != "" {
		s.model = model
		return nil
	}
	resp, fail := s.do(ctx, http.MethodGet, "/v1/models", nil)
	if fail != nil {
		return fail
	}
	defer resp.Body.Close()
	var list openai.ModelList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return &Failure{Kind: "no list of models", Message: err.Error()}
	}
	if len(list.Data) == 0 {
		return &Failure{Kind: "no model", Message: "the server has no model ready"}
	}
	s.model = list.Data[0].ID
	return nil
}

// maxBody bounds an error's body, and maxEvent an event or a whole answer, in bytes.
const (
	maxBody  = 64 << 10
	maxEvent = 16 << 20
)

func (s *server) do(ctx context.Context, method, path string, body any) (*http.Response, *Failure) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, &Failure{Kind: "not a request", Message: err.Error()}
	}
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(payload))
	if err != nil {
		return nil, &Failure{Kind: "not a request", Message: err.Error()}
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(r)
	if err != nil {
		return nil, cut(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, cut(err)
	}
	return nil, refused(resp.StatusCode, text)
}

// answer is what came of a request, as far as it came.
type answer struct {
	text         string
	reason       string
	prompt       int // tokens, as the server counts
	output       int
	first, whole time.Duration
	gaps         []time.Duration // between pieces of text
	failure      *Failure
}

// chunk is a piece of an answer: the fields that completions and chats, streamed and whole,
// have between them.
type chunk struct {
	Choices []struct {
		Text    string                   `json:"text"`
		Delta   struct{ Content string } `json:"delta"`
		Message struct{ Content string } `json:"message"`
		Reason  *string                  `json:"finish_reason"`
	} `json:"choices"`
	Usage *openai.Usage `json:"usage"`
}

// stream asks and reads the answer as it comes.
func (s *server) stream(ctx context.Context, q question) (a answer) {
	body := maps.Clone(q.body)
	body["model"], body["stream"] = s.model, true
	body["stream_options"] = map[string]bool{"include_usage": true}
	began := time.Now()
	defer func() { a.whole = time.Since(began) }()
	resp, fail := s.do(ctx, http.MethodPost, q.path, body)
	if fail != nil {
		a.failure = fail
		return a
	}
	defer resp.Body.Close()
	events := openai.NewReader(resp.Body, maxEvent)
	var text strings.Builder
	last := began
	for {
		piece, done, fail := nextChunk(events)
		if fail != nil || done {
			a.failure = fail
			break
		}
		if got := a.take(piece); got != "" {
			text.WriteString(got)
			now := time.Now()
			if a.first == 0 {
				a.first = now.Sub(began)
			} else {
				a.gaps = append(a.gaps, now.Sub(last))
			}
			last = now
		}
	}
	a.text = text.String()
	if a.output == 0 && a.first > 0 {
		a.output = len(a.gaps) + 1 // a server that does not count sends a token a piece
	}
	return a
}

func nextChunk(events *openai.Reader) (c chunk, done bool, fail *Failure) {
	ev, err := events.Next()
	switch {
	case errors.Is(err, io.EOF):
		return c, false, &Failure{Kind: "stream broke off", Message: "it ended without its end mark"}
	case err != nil:
		return c, false, cut(err)
	case ev.Done():
		return c, true, nil
	}
	if e, ok := openai.StreamError(ev.Data); ok {
		return c, false, streamed(e)
	}
	if err := json.Unmarshal(ev.Data, &c); err != nil {
		return c, false, &Failure{Kind: "not a chunk", Message: err.Error()}
	}
	return c, false, nil
}

// take adds a piece and gives its text.
func (a *answer) take(c chunk) string {
	text := ""
	for _, choice := range c.Choices {
		text += choice.Text + choice.Delta.Content + choice.Message.Content
		if choice.Reason != nil {
			a.reason = *choice.Reason
		}
	}
	if c.Usage != nil {
		a.prompt, a.output = c.Usage.PromptTokens, c.Usage.CompletionTokens
	}
	return text
}

// whole asks for the answer in one piece.
func (s *server) whole(ctx context.Context, q question) (a answer) {
	body := maps.Clone(q.body)
	body["model"] = s.model
	resp, fail := s.do(ctx, http.MethodPost, q.path, body)
	if fail != nil {
		a.failure = fail
		return a
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
	if err != nil {
		a.failure = cut(err)
		return a
	}
	var c chunk
	if err := json.Unmarshal(text, &c); err != nil {
		a.failure = &Failure{Kind: "not an answer", Message: err.Error()}
		return a
	}
	a.text = a.take(c)
	return a
}
