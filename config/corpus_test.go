package config

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests get into the files that say what they want")

// uses are the names that a corpus file may give in its head.
var uses = map[string]Use{"": Check, "up": Up, "router": Router, "prefill": Prefill, "decode": Decode}

// corpus gives the files whose names end so.
func corpus(t testing.TB, ending string) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*" + ending)
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata/*%s: %v", ending, err)
	}
	return files
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// header is the value of a line "# name: value" before the first line that is no comment.
func header(data []byte, name string) string {
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		if v, ok := strings.CutPrefix(line, "# "+name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// faultsMark begins the end of a bad file: what is said about it, a line for each fault.
const faultsMark = "# faults:\n"

// Each bad file holds one mistake, and its last lines are all that is said about it.
// req: PIPE-21
// req: PIPE-22
// req: PIPE-23
// req: PIPE-24
func TestBadFiles(t *testing.T) {
	for _, path := range corpus(t, ".bad.yml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data := read(t, path)
			body, want, ok := bytes.Cut(data, []byte(faultsMark))
			if !ok {
				t.Fatalf("no line %q", faultsMark)
			}
			_, warnings, err := Load(Source{Use: uses[header(data, "use")], File: path, Data: data})
			var faults *Error
			if !errors.As(err, &faults) {
				t.Fatalf("it is accepted: %v", err)
			}
			if len(warnings) > 0 {
				t.Errorf("warnings beside faults: %v", warnings)
			}
			var got strings.Builder
			for _, line := range faults.Lines() {
				got.WriteString("# " + strings.TrimPrefix(line, path+":") + "\n")
			}
			if *rewrite {
				put(t, path, string(body)+faultsMark+got.String())
				return
			}
			if got.String() != string(want) {
				t.Errorf("got\n%swant\n%s", got.String(), want)
			}
		})
	}
}

// Each good file resolves to what the file beside it says, which loads as itself.
// req: PIPE-24
func TestGoodFiles(t *testing.T) {
	for _, path := range corpus(t, ".good.yml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, warnings, err := Load(Source{File: path, Data: read(t, path)})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, w := range warnings {
				got.WriteString("# " + strings.TrimPrefix(w.In(path), path+":") + "\n")
			}
			got.Write(printed(t, c))
			out := strings.TrimSuffix(path, ".yml") + ".out"
			if *rewrite {
				put(t, out, got.String())
				return
			}
			if want := read(t, out); got.String() != string(want) {
				t.Errorf("got\n%swant\n%s", got.String(), want)
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// printed is c as a file, which must load as c without a word.
func printed(t testing.TB, c Config) []byte {
	t.Helper()
	out, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, warnings, err := Load(Source{File: "printed", Data: out})
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if !equal(again, c) {
		t.Fatalf("what was printed loads as something else:\n%s", out)
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "cannot run yet") && !strings.Contains(w.Message, "does nothing") {
			t.Errorf("what was printed warns: %s", w.In("printed"))
		}
	}
	return out
}

// Every fault names a key that exists, or stands at the key that does not.
func TestFaultsNameKeys(t *testing.T) {
	for _, path := range corpus(t, ".bad.yml") {
		data := read(t, path)
		_, _, err := Load(Source{Use: uses[header(data, "use")], File: path, Data: data})
		for _, f := range err.(*Error).Faults {
			key, _, _ := strings.Cut(f.Path, "[")
			if _, known := byPath[key]; !known && key != "" && !strings.HasPrefix(f.Message, "unknown key") {
				t.Errorf("%s: %s is no key", path, f.Path)
			}
			if f.Line < 1 || f.Column < 1 || f.Line > bytes.Count(data, []byte("\n"))+1 {
				t.Errorf("%s: place %v is not in the file", path, f.Place)
			}
		}
	}
}

// What no text file of the corpus can hold.
// req: PIPE-24
func TestUnreadableFiles(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"empty":     {"", "f:1:1: the file is empty: {} asks for every default"},
		"blank":     {" \n\n", "f:1:1: the file is empty: {} asks for every default"},
		"not UTF-8": {"port: 1\nmodel: \xff\n", "f:2:1: is not UTF-8 text"},
		"too long":  {strings.Repeat("#", maxFile) + "\n", "f:1:1: is longer than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Load(Source{File: "f", Data: []byte(c.data)})
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if _, err := Parse([]byte(c.data)); err == nil {
				t.Error("Parse accepts it")
			}
		})
	}
}

// A file that is said to be type-right is one for the parser at least.
func TestHeads(t *testing.T) {
	for _, path := range corpus(t, ".bad.yml") {
		data := read(t, path)
		switch s := header(data, "schema"); s {
		case "accepted", "refused":
			var any any
			if err := yaml.Unmarshal(data, &any); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		case "none":
		default:
			t.Errorf("%s: schema %q", path, s)
		}
		if _, ok := uses[header(data, "use")]; !ok {
			t.Errorf("%s: unknown use", path)
		}
	}
}
