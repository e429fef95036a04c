package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvferry/runner"
	"kvferry/runner/gguf"
)

// day is the one of testdata/golden.py.
var day = time.Date(2026, 2, 7, 15, 4, 5, 0, time.UTC)

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func compiled(t testing.TB, source string) *Template {
	t.Helper()
	tmpl, err := New(runner.Chat{Template: source, BOS: "<s>", EOS: "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// TestGolden: templates of the forms that models have render to what Python's Jinja makes of them,
// and refuse what they refuse there, in the same words.
//
// req: SERVE-05
func TestGolden(t *testing.T) {
	var chats map[string][]Message
	readJSON(t, "chats.json", &chats)
	var golden []struct {
		Template, Chat string
		Want, Error    *string
	}
	readJSON(t, "golden.json", &golden)
	if len(golden) < 70 {
		t.Fatalf("%d cases", len(golden))
	}
	for _, c := range golden {
		source, err := os.ReadFile(filepath.Join("testdata", "templates", c.Template+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := compiled(t, strings.TrimSuffix(string(source), "\n")).render(chats[c.Chat], day)
		var raised *RaisedError
		switch {
		case c.Error != nil:
			if !errors.As(err, &raised) || raised.Message != *c.Error {
				t.Errorf("%s of %s: %q, %v; want the error %q", c.Template, c.Chat, got, err, *c.Error)
			}
		case err != nil:
			t.Errorf("%s of %s: %v", c.Template, c.Chat, err)
		case got != *c.Want:
			t.Errorf("%s of %s:\n%q, want\n%q", c.Template, c.Chat, got, *c.Want)
		}
	}
}

// TestGoldenModel is the same with the template of a real model's file.
//
// req: SERVE-05
func TestGoldenModel(t *testing.T) {
	path := os.Getenv("KVFERRY_LLAMA_MODEL")
	if path == "" {
		t.Skip("KVFERRY_LLAMA_MODEL is not set: runner/llamacpp/testdata/fetch-model.sh fetches the model")
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Read(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	source, err := f.Str("tokenizer.chat_template")
	if err != nil {
		t.Fatal(err)
	}
	var chats map[string][]Message
	readJSON(t, "chats.json", &chats)
	var hashes map[string]string
	readJSON(t, "model.json", &hashes)
	for name, want := range hashes {
		got, err := compiled(t, source).render(chats[name], day)
		if sum := sha256.Sum256([]byte(got)); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
