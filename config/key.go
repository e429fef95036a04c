package config

import (
	"reflect"
	"strconv"
	"strings"
)

// The sections' names.
const (
	contextServers    = "context_servers"
	generationServers = "generation_servers"
)

// key is one setting or section, as its tags describe it.
type key struct {
	path  string
	index []int // of the field, for reflect
	typ   reflect.Type

	min, max      float64 // of a number that is none of a few words
	words, known  []string
	fallback      string
	inherit       string
	doc           string
	section       bool
	isInt, isTime bool
}

// keys are all settings and sections, each after the section that holds it, the top level's
// settings first.
var keys = walkKeys(reflect.TypeFor[Config](), "", nil)

// byPath finds a key by its path.
var byPath = func() map[string]key {
	m := map[string]key{}
	for _, k := range keys {
		m[k.path] = k
	}
	return m
}()

func walkKeys(t reflect.Type, under string, index []int) []key {
	var out []key
	for i := range t.NumField() {
		f := t.Field(i)
		k := key{
			path: join(under, f.Tag.Get("yaml")), index: append(index[:len(index):len(index)], i), typ: f.Type,
			min: number(f.Tag.Get("min")), max: number(f.Tag.Get("max")),
			words: words(f.Tag.Get("enum")), known: words(f.Tag.Get("known")),
			fallback: f.Tag.Get("default"), inherit: f.Tag.Get("inherit"), doc: f.Tag.Get("doc"),
			section: f.Type.Kind() == reflect.Struct, isInt: f.Type == reflect.TypeFor[*int](), isTime: f.Type == reflect.TypeFor[*Seconds](),
		}
		out = append(out, k)
		if k.section {
			out = append(out, walkKeys(f.Type, k.path, k.index)...)
		}
	}
	return out
}

func number(tag string) float64 {
	f, _ := strconv.ParseFloat(tag, 64) // an absent tag is 0
	return f
}

func words(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

func join(under, name string) string {
	if under == "" {
		return name
	}
	return under + "." + name
}

// parent is the path of the section that holds a key, name the key's last part.
func parent(path string) (section, name string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// name is the key's last part.
func (k key) name() string {
	_, name := parent(k.path)
	return name
}

// field is the key's field in c: a pointer, a slice or a section.
func (k key) field(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.index) }

// set gives an unsaid key the value that a word stands for; the word comes from a tag.
func (k key) set(c *Config, word string) {
	v := reflect.New(k.typ.Elem())
	switch v.Elem().Kind() {
	case reflect.Int:
		v.Elem().SetInt(int64(number(word)))
	case reflect.Float64:
		v.Elem().SetFloat(number(word))
	case reflect.Bool:
		v.Elem().SetBool(word == "true")
	default:
		v.Elem().SetString(word)
	}
	k.field(c).Set(v)
}

// clone copies c, so that changing the copy changes nothing of c.
func clone(c Config) Config {
	out := c
	for _, k := range keys {
		f := k.field(&out)
		switch {
		case k.section || f.IsNil():
		case f.Kind() == reflect.Slice:
			f.Set(reflect.AppendSlice(reflect.MakeSlice(f.Type(), 0, f.Len()), f))
		default:
			v := reflect.New(f.Type().Elem())
			v.Elem().Set(f.Elem())
			f.Set(v)
		}
	}
	return out
}
