package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant is one change to one guard.
type mutant struct {
	file      string // within the package
	line      int
	condition string // the whole guard's
	change    string // inverted, removed, or the part of the condition that is removed
	from, to  int    // the bytes that are replaced
	text      string // by this
	verdict   verdict
}

func (m mutant) name() string {
	return m.file + ":" + strconv.Itoa(m.line) + " `" + m.condition + "` " + m.change
}

// exempt are files whose conditions guard no state.
var exempt = map[string]bool{"phase.go": true}

// find lists the changes to the guards of a package: the condition of every if, and every case
// of a switch that has no value.
func find(pkg, only string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	var out []mutant
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || exempt[name] || only != "" && name != only {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, src, 0)
		if err != nil {
			return nil, err
		}
		s := searcher{set: set, src: src, file: name}
		ast.Inspect(f, s.visit)
		out = append(out, s.out...)
	}
	return out, nil
}

type searcher struct {
	set  *token.FileSet
	src  []byte
	file string
	out  []mutant
}

func (s *searcher) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		s.guard(n.Cond, leaves(n.Body))
	case *ast.SwitchStmt:
		if n.Tag != nil {
			break
		}
		for _, c := range n.Body.List {
			for _, cond := range c.(*ast.CaseClause).List {
				s.guard(cond, true)
			}
		}
	}
	return true
}

// leaves says whether a block ends by leaving what it is in. A guard before such a block is
// removed with the block; the others are removed so that the block is always run.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch last := b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	case *ast.ExprStmt:
		call, ok := last.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, ok := call.Fun.(*ast.Ident)
		return ok && name.Name == "panic"
	}
	return false
}

// guard adds the changes to one condition.
func (s *searcher) guard(cond ast.Expr, never bool) {
	whole := s.text(cond)
	s.add(cond, whole, "inverted", "!("+whole+")")
	s.add(cond, whole, "removed", constant(!never, whole))
	s.parts(cond, whole)
}

// constant is a condition that is always or never true, and still mentions what it did: Go
// wants every variable used.
func constant(always bool, condition string) string {
	if always {
		return "(true || (" + condition + "))"
	}
	return "(false && (" + condition + "))"
}

// parts removes each operand of && and || in turn.
func (s *searcher) parts(e ast.Expr, whole string) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		s.parts(e.X, whole)
	case *ast.BinaryExpr:
		if e.Op != token.LAND && e.Op != token.LOR {
			return
		}
		for _, part := range []ast.Expr{e.X, e.Y} {
			if b, ok := part.(*ast.BinaryExpr); !ok || b.Op != e.Op {
				text := s.text(part)
				s.add(part, whole, "without `"+text+"`", constant(e.Op == token.LAND, text))
			}
			s.parts(part, whole)
		}
	}
}

func (s *searcher) text(e ast.Expr) string {
	return string(s.src[s.at(e.Pos()):s.at(e.End())])
}

func (s *searcher) at(p token.Pos) int { return s.set.Position(p).Offset }

func (s *searcher) add(e ast.Expr, whole, change, text string) {
	s.out = append(s.out, mutant{
		file: s.file, line: s.set.Position(e.Pos()).Line, condition: whole, change: change,
		from: s.at(e.Pos()), to: s.at(e.End()), text: text,
	})
}
