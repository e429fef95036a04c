package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile is the longest file, in bytes: the parser takes more than its share of time for long
// ones.
const maxFile = 64 << 10

// parsed is what a file says: its sparse settings, where each key is, and the faults of form.
type parsed struct {
	config Config
	places map[string]Place
	faults []Finding
}

// Parse reads a file without resolving it. Its faults are those of form: syntax, unknown and
// doubled keys, wrong types. The error is an *Error, without a file's name.
func Parse(data []byte) (Config, error) {
	p := parse(data)
	return p.config, faulty("", sortFindings(p.faults))
}

func parse(data []byte) parsed {
	root, fault := document(data)
	if fault != nil {
		return parsed{places: map[string]Place{"": {1, 1}}, faults: []Finding{*fault}}
	}
	d := decoder{places: map[string]Place{"": {1, 1}}, anchors: anchors{}}
	ast.Walk(d.anchors, root)
	var c Config
	d.section(root, "", reflect.ValueOf(&c).Elem())
	return parsed{config: c, places: d.places, faults: d.faults}
}

// document finds the one document of a file.
func document(data []byte) (ast.Node, *Finding) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	switch {
	case len(data) > maxFile:
		return nil, whole("is longer than %d bytes", maxFile)
	case !utf8.ValidString(text):
		return nil, invalidText(text)
	}
	file, err := parseYAML(text)
	if err != nil {
		return nil, syntax(err)
	}
	var root ast.Node
	for i, doc := range file.Docs {
		if doc.Body == nil && i == len(file.Docs)-1 && root != nil {
			break // a marker at the end
		}
		if root != nil {
			line := 1
			if doc.Start != nil {
				line = doc.Start.Position.Line
			}
			f := whole("the file has several documents: want one")
			f.Line = line
			return nil, f
		}
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType {
			root = doc.Body
		}
	}
	if root == nil {
		return nil, whole("the file is empty: {} asks for every default")
	}
	return root, nil
}

// parseYAML turns a panic of the parser, which some malformed texts cause, into an error: a
// file's fault is never ours.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("is not YAML")
		}
	}()
	return parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
}

func whole(format string, args ...any) *Finding {
	return &Finding{Place: Place{1, 1}, Message: fmt.Sprintf(format, args...)}
}

func invalidText(text string) *Finding {
	f := whole("is not UTF-8 text")
	for _, line := range strings.SplitAfter(text, "\n") {
		if !utf8.ValidString(line) {
			break
		}
		f.Line++
	}
	return f
}

func syntax(err error) *Finding {
	f := whole("%s", err)
	var at yaml.Error
	if errors.As(err, &at) {
		f.Message = at.GetMessage()
		if tk := at.GetToken(); tk != nil {
			f.Place = Place{tk.Position.Line, tk.Position.Column}
		}
	}
	f.Message = "not valid YAML: " + f.Message
	return f
}

// anchors are a document's named nodes.
type anchors map[string]ast.Node

// Visit takes in a node; ast.Walk calls it.
func (a anchors) Visit(n ast.Node) ast.Visitor {
	if n, ok := n.(*ast.AnchorNode); ok && n.Name != nil {
		a[n.Name.GetToken().Value] = n.Value
	}
	return a
}
