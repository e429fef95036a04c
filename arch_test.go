package kvferry

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rule is what one room may do. A room's rule covers the folders below it that have none of
// their own.
type rule struct {
	// imports are the rooms of ours that it may import, beside itself.
	imports []string
	// pure rooms know no clock, network, files, locks or goroutines: time is handed in.
	pure bool
	why  string
}

// rooms is the table of docs/architecture.md.
var rooms = map[string]rule{
	"":               {why: "holds only this test"},
	"cmd":            {imports: []string{"*"}, why: "the program wires everything"},
	"openai":         {pure: true, why: "the API as data, for servers and clients alike"},
	"openai/httpapi": {imports: []string{"openai"}, why: "the API's edge leaf: what all HTTP servers do alike"},
	"router":         {imports: []string{"openai", "kvcache", "lease"}, pure: true, why: "decisions, replayable in tests"},
	"router/proxy":   {imports: []string{"router", "openai", "openai/httpapi"}, why: "the router's edge leaf: HTTP"},
	"engine":         {imports: []string{"openai", "kvcache", "transfer", "lease", "wire"}, pure: true, why: "the simulator runs it as it is"},
	"runner":         {imports: []string{"kvcache"}, why: "runs models over blocks that it does not own"},
	"kvcache":        {pure: true, why: "numbers about memory, never the memory"},
	"transfer":       {imports: []string{"wire", "kvcache", "lease"}, pure: true, why: "the protocol"},
	"lease":          {imports: []string{"wire"}, pure: true, why: "the protocol"},
	"wire":           {pure: true, why: "bytes in, values out"},
	"agent":          {imports: []string{"wire"}, why: "moves bytes, knows no request"},
	"models":         {why: "data"},
	"telemetry":      {imports: []string{"wire"}, why: "counts what others tell it"},
	"node":           {imports: []string{"openai", "openai/httpapi", "router", "router/proxy", "engine", "runner", "kvcache", "transfer", "lease", "wire", "agent", "models", "telemetry", "discovery", "config"}, why: "the shell around the machines"},
	"bench":          {imports: []string{"openai", "node", "engine", "agent", "runner", "kvcache", "transfer", "lease", "wire"}, why: "measures through the product's own surfaces"},
	"doctor":         {imports: []string{"runner", "agent"}, why: "looks at a machine through probes, changes nothing"},
	"sim":            {imports: []string{"engine", "kvcache", "transfer", "lease", "wire", "router", "openai"}, why: "drives the pure rooms alone"},
	"config":         {imports: []string{"kvcache"}, pure: true, why: "settings as data"},
}

// unclean are the packages that a pure room must not import: each would bring in a clock, the
// outside world, or another goroutine's view.
var unclean = []string{"net", "os", "sync", "syscall", "context", "log", "math/rand", "crypto/rand", "runtime", "io/fs"}

// source is one Go file that is not a test.
type source struct {
	path string // from the root, with slashes
	room string
	file *ast.File
	set  *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	walkGo(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, source{path: path, room: roomOf(filepath.ToSlash(filepath.Dir(path))), file: f, set: set})
	})
	if len(out) < 50 {
		t.Fatalf("found %d source files: the walk is broken", len(out))
	}
	return out
}

func walkGo(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// roomOf is the nearest folder upward that has a rule, or the folder itself.
func roomOf(dir string) string {
	for d := dir; d != "."; d = filepath.ToSlash(filepath.Dir(d)) {
		if _, ok := rooms[d]; ok {
			return d
		}
	}
	if dir == "." {
		return ""
	}
	return dir
}

// TestRooms: each room imports what its row allows, and nothing else of ours.
func TestRooms(t *testing.T) {
	for _, s := range sources(t) {
		r, ok := rooms[s.room]
		if !ok {
			t.Errorf("%s is in no room: give its folder a row, with the reason", s.path)
			continue
		}
		for _, imp := range s.file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			rest, ours := strings.CutPrefix(path, "kvferry/")
			if !ours {
				continue
			}
			to := roomOf(rest)
			if to != s.room && !slices.Contains(r.imports, to) && !slices.Contains(r.imports, "*") {
				t.Errorf("%s imports %s: room %q may not (%s)", s.path, path, s.room, r.why)
			}
		}
	}
}

// TestPureRooms: a pure room has no way to learn the time, reach the world or start a goroutine.
func TestPureRooms(t *testing.T) {
	for _, s := range sources(t) {
		if !rooms[s.room].pure {
			continue
		}
		for _, imp := range s.file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			for _, bad := range unclean {
				if path == bad || strings.HasPrefix(path, bad+"/") {
					t.Errorf("%s imports %s: room %q is pure (%s)", s.path, path, s.room, rooms[s.room].why)
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: room %q is pure", s.set.Position(n.Pos()), s.room)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}, n.Sel.Name) {
					t.Errorf("%s uses time.%s: in room %q time is handed in", s.set.Position(n.Pos()), n.Sel.Name, s.room)
				}
			}
			return true
		})
	}
}

// TestPackageComments: every package says what it is for.
func TestPackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.Dir(s.path)
		documented[dir] = documented[dir] || s.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}

// TestFileLength: a file of more than 800 lines holds more than one thing.
func TestFileLength(t *testing.T) {
	walkGo(t, func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte("\n")); n > 800 {
			t.Errorf("%s has %d lines: at most 800", path, n)
		}
	})
}

// TestNoSleepInTests: tests wait for a condition or sleep in virtual time.
func TestNoSleepInTests(t *testing.T) {
	sleep := []byte("time." + "Sleep(")
	walkGo(t, func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "_test.go") && bytes.Contains(b, sleep) && !bytes.Contains(b, []byte("synctest.Test(")) {
			t.Errorf("%s sleeps", path)
		}
	})
}
