package e2etest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"kvferry/node"
	"kvferry/openai"
)

// Client speaks to one server.
type Client struct {
	// URL is http://host:port.
	URL string
	// Model is what requests ask for.
	Model string
	// Header goes with every request that is posted.
	Header http.Header
	http   *http.Client
}

// NewClient speaks to the server at a URL or at host:port.
func NewClient(url, model string) *Client {
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	return &Client{URL: url, Model: model, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Message is a chat's.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Request is a completion, or a chat if Messages is set.
type Request struct {
	// Prompt is a string or token IDs.
	Prompt   any
	Messages []Message
	Stream   bool
	// Params is the rest of the body.
	Params map[string]any
}

// With sets parameters of a request.
func (r Request) With(params map[string]any) Request {
	all := map[string]any{}
	maps.Copy(all, r.Params)
	maps.Copy(all, params)
	r.Params = all
	return r
}

// Streamed is the request with its answer streamed.
func (r Request) Streamed() Request {
	r.Stream = true
	return r
}

func (r Request) path() string {
	if r.Messages != nil {
		return "/v1/chat/completions"
	}
	return "/v1/completions"
}

func (r Request) body(model string) []byte {
	body := map[string]any{"model": model}
	if r.Messages != nil {
		body["messages"] = r.Messages
	} else {
		body["prompt"] = r.Prompt
	}
	if r.Stream {
		body["stream"] = true
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	maps.Copy(body, r.Params)
	out, err := json.Marshal(body)
	if err != nil {
		panic(err) // the test's own body
	}
	return out
}

// Post sends a request and gives the answer with its status, whatever it is.
func (c *Client) Post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.Header)
	req.Header.Set("Content-Type", "application/json")
	return c.http.Do(req)
}

// Open sends a request whose answer is streamed. An answer other than 200 is an *openai.Error.
func (c *Client) Open(ctx context.Context, r Request) (*Stream, error) {
	began := time.Now()
	resp, err := c.Post(ctx, r.path(), r.Streamed().body(c.Model))
	if err != nil {
		return nil, err
	}
	if err := refused(resp); err != nil {
		return nil, err
	}
	return newStream(resp, r.Messages != nil, began), nil
}

// Complete sends a request and gives the whole answer. An answer other than 200, and a
// stream that ends with an error, is an *openai.Error.
func (c *Client) Complete(ctx context.Context, r Request) (*Answer, error) {
	if r.Stream {
		s, err := c.Open(ctx, r)
		if err != nil {
			return nil, err
		}
		return s.Rest()
	}
	began := time.Now()
	resp, err := c.Post(ctx, r.path(), r.body(c.Model))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := refused(resp); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	a := &Answer{Timing: resp.Trailer.Get("Server-Timing"), First: time.Since(began)}
	a.Whole = a.First
	return a, a.whole(body, r.Messages != nil)
}

// Prefill sends the prefill leg of a request and gives the engine's reply.
func (c *Client) Prefill(ctx context.Context, r Request) (*node.PrefillReply, error) {
	resp, err := c.Post(ctx, r.path(), r.body(c.Model))
	if err != nil {
		return nil, err
	}
	if err := refused(resp); err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var reply node.PrefillReply
	return &reply, json.NewDecoder(resp.Body).Decode(&reply)
}

// refused reads an answer that is an error.
func refused(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return openai.DecodeError(resp.StatusCode, body)
}

// Get reads a path's JSON into v, whatever the status is.
func (c *Client) Get(ctx context.Context, path string, v any) error {
	body, err := c.Text(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, body)
	}
	return nil
}

// Text reads a path.
func (c *Client) Text(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// RouterState is a router's /debug/state.
type RouterState struct {
	Role    string `json:"role"`
	Engines []struct {
		Role  string      `json:"role"`
		URL   string      `json:"url"`
		PID   int         `json:"pid"`
		Ready bool        `json:"ready"`
		State *node.State `json:"state"`
	} `json:"engines"`
	Requests struct {
		Running int `json:"running"`
	} `json:"requests"`
}
