package kvferry

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ledger is what the project claims: of each list of requirements how many lines it has, and
// which of them must be cited by a test. A test cites a line by "req: PIPE-03" in the comment
// above it, or in its script.
var ledger = map[string]struct {
	lines int
	done  []int
}{
	"PIPE":  {lines: 36, done: upTo(36)},
	"SERVE": {lines: 7, done: upTo(5)},
	"LEASE": {lines: 26, done: upTo(26)},
	// What went wrong for others, cited by "case: 07".
	"case": {lines: 19, done: upTo(19)},
}

func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// citation is a line that cites, and what it says.
var citation = regexp.MustCompile(`^(?://|#)\s*(req|case):\s*(.*)$`)

// TestLedger: every line that is claimed is cited by a test or a script, and whatever is cited is
// a line of the ledger.
func TestLedger(t *testing.T) {
	cited := map[string][]string{}
	take := func(where, line string) {
		m := citation.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return
		}
		for _, id := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			if m[1] == "case" {
				id = "case-" + id
			}
			if !known(id) {
				t.Errorf("%s cites %s, which is no line of the ledger", where, id)
			}
			cited[id] = append(cited[id], where)
		}
	}
	if n := inTests(t, take); n < 100 {
		t.Fatalf("%d tests cite a line: the walk is broken", n)
	}
	if n := inScripts(t, take); n < 30 {
		t.Fatalf("%d scripts cite a line: the walk is broken", n)
	}
	for list, l := range ledger {
		for _, n := range l.done {
			if id := fmt.Sprintf("%s-%02d", list, n); cited[id] == nil {
				t.Errorf("%s is claimed, and no test cites it", id)
			}
		}
	}
}

// known says whether an ID is a line of the ledger, written as the ledger writes it.
func known(id string) bool {
	list, number, _ := strings.Cut(id, "-")
	n, err := strconv.Atoi(number)
	return err == nil && len(number) == 2 && n >= 1 && n <= ledger[list].lines
}

// inTests reads the comments above tests and fuzz targets. A citation anywhere else shows
// nothing, and is an error. It gives the number of tests that cite.
func inTests(t *testing.T, take func(where, line string)) int {
	t.Helper()
	n := 0
	walkGo(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		above := map[*ast.CommentGroup]bool{}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && isTest(fn.Name.Name) && fn.Doc != nil {
				above[fn.Doc] = true
			}
		}
		for _, group := range f.Comments {
			cites := false
			for _, c := range group.List {
				if !citation.MatchString(c.Text) {
					continue
				}
				cites = true
				if !above[group] {
					t.Errorf("%s cites a line, and is above no test", set.Position(c.Pos()))
				}
				take(path, c.Text)
			}
			if cites {
				n++
			}
		}
	})
	return n
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Benchmark")
}

// inScripts reads the comments of the scripts in testdata. It gives the number of scripts that
// cite.
func inScripts(t *testing.T, take func(where, line string)) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txt" || !strings.Contains(filepath.ToSlash(path), "/testdata/") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		cites := false
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if line := lines.Text(); strings.HasPrefix(line, "#") {
				cites = cites || citation.MatchString(line)
				take(path, line)
			}
		}
		if cites {
			n++
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
