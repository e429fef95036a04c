package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kvferry/openai"
)

// askOptions are what `ask` is told.
type askOptions struct {
	url, model  string
	maxTokens   int
	temperature float64
	seed        int64
}

func askCommand() *cobra.Command {
	var o askOptions
	cmd := &cobra.Command{
		Use:   "ask PROMPT",
		Short: "Stream an answer to the terminal, and say what it took",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop, release := stopSignal()
			defer release()
			return o.run(stop, cmd.OutOrStdout(), args[0], cmd.Flags().Changed("seed"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "http://127.0.0.1:8000", "where kvferry serves")
	f.StringVar(&o.model, "model", "", "the model's `name` (default the server's first)")
	f.IntVar(&o.maxTokens, "max-tokens", 128, "most tokens of the answer")
	f.Float64Var(&o.temperature, "temperature", 0, "0 takes the likeliest token each time")
	f.Int64Var(&o.seed, "seed", 0, "makes a random answer the same again")
	return cmd
}

func (o askOptions) run(ctx context.Context, w io.Writer, prompt string, seeded bool) error {
	if !strings.Contains(o.url, "://") {
		o.url = "http://" + o.url
	}
	o.url = strings.TrimSuffix(o.url, "/")
	if o.model == "" {
		name, err := o.firstModel(ctx)
		if err != nil {
			return err
		}
		o.model = name
	}
	body := map[string]any{
		"model": o.model, "prompt": prompt, "max_tokens": o.maxTokens, "temperature": o.temperature,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	}
	if seeded {
		body["seed"] = o.seed
	}
	began := time.Now()
	resp, err := o.do(ctx, http.MethodPost, "/v1/completions", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a := asked{began: began}
	if err := a.stream(w, resp.Body); err != nil {
		fmt.Fprintln(w)
		return err
	}
	fmt.Fprintf(w, "\n\n%s\n", a.summary(resp.Trailer.Get("Server-Timing")))
	return nil
}

func (o askOptions) firstModel(ctx context.Context) (string, error) {
	resp, err := o.do(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var list openai.ModelList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return "", fmt.Errorf("%s/v1/models: %w", o.url, err)
	}
	if len(list.Data) == 0 {
		return "", fmt.Errorf("%s serves no model now", o.url)
	}
	return list.Data[0].ID, nil
}

// do sends a request; an answer that is not 200 is an error.
func (o askOptions) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, o.url+path, payload)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("is kvferry running? %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return nil, openai.DecodeError(resp.StatusCode, b)
	}
	return resp, nil
}

// asked is an answer as it comes.
type asked struct {
	began       time.Time
	first, last time.Time
	tokens      int
}

// maxEvent bounds one event of a stream, in bytes.
const maxEvent = 1 << 20

func (a *asked) stream(w io.Writer, body io.Reader) error {
	events := openai.NewReader(body, maxEvent)
	for {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("the answer broke off")
		}
		if err != nil {
			return err
		}
		if ev.Done() {
			// The trailer comes after the last event.
			_, err := io.Copy(io.Discard, body)
			return err
		}
		if failed, ok := openai.StreamError(ev.Data); ok {
			return failed
		}
		var chunk openai.CompletionChunk
		if err := json.Unmarshal(ev.Data, &chunk); err != nil {
			return fmt.Errorf("the server sent what is no chunk: %w", err)
		}
		a.take(w, chunk)
	}
}

func (a *asked) take(w io.Writer, chunk openai.CompletionChunk) {
	if chunk.Usage != nil {
		a.tokens = chunk.Usage.CompletionTokens
	}
	for _, c := range chunk.Choices {
		a.last = time.Now()
		if a.first.IsZero() {
			a.first = a.last
		}
		fmt.Fprint(w, c.Text)
	}
}

// summary is the line after the answer.
func (a *asked) summary(timing string) string {
	line := fmt.Sprintf("time to first token %s", ms(a.first.Sub(a.began)))
	if span := a.last.Sub(a.first).Seconds(); a.tokens > 1 && span > 0 {
		line += fmt.Sprintf(", %.1f tokens/s", float64(a.tokens-1)/span)
	}
	hidden, ok1 := serverTiming(timing, "transfer_hidden")
	exposed, ok2 := serverTiming(timing, "transfer_exposed")
	if ok1 && ok2 {
		return line + fmt.Sprintf(", KV transfer %s hidden and %s exposed", ms(hidden), ms(exposed))
	}
	return line + ", no KV transfer"
}

func ms(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
}

// serverTiming finds a metric's duration in a Server-Timing field.
func serverTiming(field, name string) (time.Duration, bool) {
	for metric := range strings.SplitSeq(field, ",") {
		parts := strings.Split(metric, ";")
		if strings.TrimSpace(parts[0]) != name {
			continue
		}
		for _, p := range parts[1:] {
			if v, ok := strings.CutPrefix(strings.TrimSpace(p), "dur="); ok {
				f, err := strconv.ParseFloat(v, 64)
				return time.Duration(f * float64(time.Millisecond)), err == nil
			}
		}
	}
	return 0, false
}
