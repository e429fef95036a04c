package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder puts nodes into fields. It goes on after a fault, so that all are found.
type decoder struct {
	anchors anchors
	places  map[string]Place
	faults  []Finding
}

func placeOf(n ast.Node) Place {
	p := n.GetToken().Position
	return Place{p.Line, p.Column}
}

func (d *decoder) fault(p Place, path, format string, args ...any) {
	f := at(path, format, args...)
	f.Place = p
	d.faults = append(d.faults, f)
}

// section reads a mapping into a struct.
func (d *decoder) section(n ast.Node, path string, into reflect.Value) {
	place := d.place(n, path)
	n, ok := d.follow(n, path)
	if !ok {
		return
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		d.fault(place, path, "%s: want keys with values", describe(n))
		return
	}
	seen := map[string]Place{}
	for it := m.MapRange(); it.Next(); {
		d.entry(it.Key(), it.Value(), path, into, seen)
	}
}

// place is where a section is: at its key, where it has one.
func (d *decoder) place(n ast.Node, path string) Place {
	if p, ok := d.places[path]; ok {
		return p
	}
	return placeOf(n)
}

func (d *decoder) entry(k ast.MapKeyNode, v ast.Node, section string, into reflect.Value, seen map[string]Place) {
	place := placeOf(k)
	name := k.GetToken().Value
	path := join(section, name)
	known, ok := byPath[path]
	switch {
	case k.IsMergeKey():
		d.fault(place, section, "merge keys (<<) are not taken: name the keys, or let a whole section be an alias")
		return
	case k.Type() != ast.StringType:
		d.fault(place, section, "%s: want a plain key", name)
		return
	case !ok:
		d.fault(place, path, "unknown key%s", suggestKey(section, name))
		return
	}
	if first, twice := seen[name]; twice {
		d.fault(place, path, "given twice, first in line %d", first.Line)
		return
	}
	seen[name] = place
	d.places[path] = place
	field := into.Field(known.index[len(known.index)-1])
	if known.section {
		d.section(v, path, field)
		return
	}
	d.value(v, path, field)
}

// value reads a setting into a pointer or a list.
func (d *decoder) value(n ast.Node, path string, into reflect.Value) {
	n, ok := d.follow(n, path)
	if !ok {
		return
	}
	d.places[path] = placeOf(n)
	if into.Kind() == reflect.Slice {
		d.list(n, path, into)
		return
	}
	v := reflect.New(into.Type().Elem())
	if want := scalar(n, v.Elem()); want != "" {
		d.fault(d.places[path], path, "%s: want %s", describe(n), want)
		return
	}
	into.Set(v)
}

func (d *decoder) list(n ast.Node, path string, into reflect.Value) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fault(placeOf(n), path, "%s: want a list", describe(n))
		return
	}
	out := reflect.MakeSlice(into.Type(), 0, len(list.Values))
	for i, e := range list.Values {
		path := fmt.Sprintf("%s[%d]", path, i)
		e, ok := d.follow(e, path)
		if !ok {
			continue
		}
		d.places[path] = placeOf(e)
		v := reflect.New(into.Type().Elem()).Elem()
		if want := scalar(e, v); want != "" {
			d.fault(placeOf(e), path, "%s: want %s", describe(e), want)
		}
		out = reflect.Append(out, v)
	}
	into.Set(out)
}

// follow gives the node that an alias or an anchor stands for. Without one, or without a
// value, it reports that.
func (d *decoder) follow(n ast.Node, path string) (ast.Node, bool) {
	place := d.place(n, path)
	for range maxAliases {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			to, ok := d.anchors[name]
			if !ok {
				d.fault(placeOf(x), path, "no anchor &%s in the file", name)
				return nil, false
			}
			n = to
		case *ast.TagNode:
			d.fault(placeOf(x), path, "tag %s: tags are not taken", x.GetToken().Value)
			return nil, false
		case *ast.NullNode, nil:
			d.fault(place, path, "has no value: give it one, or leave the key out")
			return nil, false
		default:
			return n, true
		}
	}
	d.fault(place, path, "aliases that lead to each other")
	return nil, false
}

// maxAliases is how many aliases may stand for each other.
const maxAliases = 8

// scalar reads a node into a string, bool or number, or says what it wants.
func scalar(n ast.Node, into reflect.Value) (want string) {
	switch into.Kind() {
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return "true or false"
		}
		into.SetBool(b.Value)
	case reflect.Int:
		i, ok := n.(*ast.IntegerNode)
		if !ok {
			return "a whole number"
		}
		return integer(i.Token.Value, into)
	case reflect.Float64:
		f, ok := fractionOf(n)
		if !ok {
			return "a number of seconds in decimal, as 30 or 0.5"
		}
		into.SetFloat(f)
	default:
		s, ok := text(n)
		switch {
		case !ok:
			return "text, in quotes if it looks like something else"
		case strings.ContainsFunc(s, unicode.IsControl):
			return "text without control characters"
		}
		into.SetString(s)
	}
	return ""
}

// integer takes decimal numbers alone: what 010 means depends on whom one asks.
func integer(s string, into reflect.Value) (want string) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || strings.TrimPrefix(s, "+") != strconv.FormatInt(n, 10) {
		return "a whole number in decimal, below 2147483648"
	}
	into.SetInt(n)
	return ""
}

func fractionOf(n ast.Node) (float64, bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return fraction(n.GetToken().Value)
	}
	return 0, false
}

func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// describe says what a node is, for a message.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		if t := n.GetToken().Type; t == token.SingleQuoteType || t == token.DoubleQuoteType {
			return quote(n.Value) + " in quotes"
		}
		return quote(n.Value)
	case *ast.LiteralNode:
		return "a block of text"
	}
	return n.GetToken().Value
}

// quote is a value in a message, of bounded length.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
