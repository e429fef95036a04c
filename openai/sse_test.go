package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// counter counts writes: an event that took several could be torn by a flush.
type counter struct {
	bytes.Buffer
	writes int
}

func (c *counter) Write(p []byte) (int, error) {
	c.writes++
	return c.Buffer.Write(p)
}

// req: SERVE-01
func TestWriteStream(t *testing.T) {
	var w counter
	for _, err := range []error{
		WriteEvent(&w, []byte(`{"a":1}`)), WriteEvent(&w, []byte("one\ntwo\r\nthree\r\rfour\n")), WriteEvent(&w, nil),
		WriteError(&w, Internal("x")), WriteDone(&w),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "data: {\"a\":1}\n\n" +
		"data: one\ndata: two\ndata: three\ndata: \ndata: four\ndata: \n\n" +
		"data: \n\n" +
		"data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n" +
		"data: [DONE]\n\n"
	if w.String() != want || w.writes != 5 {
		t.Errorf("%d writes: %q", w.writes, w.String())
	}
	boom := errors.New("boom")
	if err := WriteDone(failing{boom}); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// readAll gives a stream's events as name=data, and how it ended.
func readAll(r io.Reader, limit int) ([]string, error) {
	var out []string
	for rd := NewReader(r, limit); ; {
		ev, err := rd.Next()
		if err != nil {
			return out, err
		}
		out = append(out, ev.Name+"="+string(ev.Data))
	}
}

func TestReadStream(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		end            error
	}{
		{"plain", "data: a\n\ndata: [DONE]\n\n", "=a|=[DONE]", io.EOF},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", "=a|=b", io.EOF},
		{"no space", "data:a\n\ndata:  b\n\n", "=a|= b", io.EOF},
		{"comments", ": ping\n\n:\ndata: a\n: in the middle\n\n", "=a", io.EOF},
		{"several lines", "data: a\ndata: b\ndata:\n\n", "=a\nb\n", io.EOF},
		{"a name", "event: error\ndata: a\n\ndata: b\n\n", "error=a|=b", io.EOF},
		{"a name alone", "event: error\n\ndata: b\n\n", "=b", io.EOF},
		{"unknown fields", "id: 7\nretry: 3\nwhat\ndata: a\n\n", "=a", io.EOF},
		{"blank lines", "\n\n\ndata: a\n\n\n\n", "=a", io.EOF},
		{"empty data", "data\n\ndata:\n\n", "=|=", io.EOF},
		{"nothing", "", "", io.EOF},
		{"cut in a line", "data: a\n\ndata: b", "=a", io.ErrUnexpectedEOF},
		{"cut after a line", "data: a\n\ndata: b\n", "=a", io.ErrUnexpectedEOF},
		{"cut after a comment", "data: a\n\n: ping\n", "=a", io.EOF},
		{"as long as allowed", "data: " + strings.Repeat("x", 32) + "\r\n\r\n", "=" + strings.Repeat("x", 32), io.EOF},
		{"long line", "data: " + strings.Repeat("x", 50) + "\n\n", "", ErrEventTooLong},
		{"long comment", ":" + strings.Repeat("x", 9000) + "\n\n", "", ErrEventTooLong},
		{"endless line", strings.Repeat("x", 9000), "", ErrEventTooLong},
		{"long event", "data: a\n\n" + strings.Repeat("data: 1234567890\n", 4) + "\n", "=a", ErrEventTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
				got, err := readAll(r, 32)
				if s := strings.Join(got, "|"); s != c.want || !errors.Is(err, c.end) {
					t.Errorf("got %q, %v, want %q, %v", s, err, c.want, c.end)
				}
			}
		})
	}
}

// Longer than the reader's own buffer, and the reader's error passes through.
func TestReadLongEventsAndErrors(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	boom := errors.New("boom")
	in := io.MultiReader(strings.NewReader("data: "+long+"\n\ndata: b"), iotest.ErrReader(boom))
	got, err := readAll(in, 1<<20)
	if len(got) != 1 || got[0] != "="+long || !errors.Is(err, boom) {
		t.Errorf("got %d events, %v", len(got), err)
	}
}

// Data handed out stays as it is when more is read.
func TestEventDataIsTheCallers(t *testing.T) {
	r := NewReader(strings.NewReader("data: aaaa\n\ndata: bbbb\n\ndata: [DONE]\n\n"), 100)
	first, _ := r.Next()
	second, _ := r.Next()
	last, _ := r.Next()
	if string(first.Data) != "aaaa" || string(second.Data) != "bbbb" || first.Done() || !last.Done() {
		t.Errorf("got %q, %q, %q", first.Data, second.Data, last.Data)
	}
}

// What is written is read, line ends being newlines.
func TestStreamRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payloads := rapid.SliceOf(rapid.StringMatching(`[a:" \r\n\[\]é]{0,12}`)).Draw(t, "payloads")
		var w bytes.Buffer
		for _, p := range payloads {
			if err := WriteEvent(&w, []byte(p)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := readAll(&w, 100)
		if err != io.EOF || len(got) != len(payloads) {
			t.Fatalf("got %d events of %d, %v", len(got), len(payloads), err)
		}
		for i, p := range payloads {
			want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(p)
			if got[i] != "="+want {
				t.Fatalf("event %d is %q, want %q", i, got[i], want)
			}
		}
	})
}

func ExampleReader() {
	r := NewReader(strings.NewReader(": hello\n\ndata: {\"a\":1}\n\ndata: [DONE]\n\n"), 1<<20)
	for {
		ev, err := r.Next()
		if err != nil || ev.Done() {
			fmt.Println("end", err)
			return
		}
		fmt.Println(string(ev.Data))
	}
	// Output:
	// {"a":1}
	// end <nil>
}
