package config

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

const schemaFile = "../docs/config.schema.json"

// schema is a JSON Schema with its words in the order in which they are written.
type schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type"`
	Enum        []any              `json:"enum,omitempty"`
	Default     any                `json:"default,omitempty"`
	Minimum     *float64           `json:"minimum,omitempty"`
	Maximum     *float64           `json:"maximum,omitempty"`
	MinLength   int                `json:"minLength,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
}

// makeSchema writes the schema of the types and their tags.
func makeSchema(t *testing.T) []byte {
	t.Helper()
	root := object("kvferry's settings")
	root.Dialect, root.Title = "https://json-schema.org/draft/2020-12/schema", "kvferry"
	at := map[string]*schema{"": root}
	for _, k := range keys {
		s := keySchema(k)
		section, name := parent(k.path)
		at[section].Properties[name] = s
		at[k.path] = s
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

func object(doc string) *schema {
	return &schema{Type: "object", Description: doc, Properties: map[string]*schema{}, Additional: new(false)}
}

func keySchema(k key) *schema {
	s := &schema{Description: k.doc}
	switch {
	case k.section:
		return object(k.doc)
	case k.typ.Kind() == reflect.Slice:
		s.Type, s.Items = "array", &schema{Type: "string", MinLength: 1}
		return s
	case k.isInt:
		s.Type = "integer"
	case k.isTime:
		s.Type = "number"
	case k.typ == reflect.TypeFor[*bool]():
		s.Type = "boolean"
	default:
		s.Type = "string"
	}
	if k.ranged() {
		s.Minimum, s.Maximum = &k.min, &k.max
	}
	if filled[k.name()] != "" {
		s.MinLength = 1
	}
	for _, w := range k.words {
		s.Enum = append(s.Enum, typed(k, w))
	}
	if k.fallback != "" {
		s.Default = typed(k, k.fallback)
	}
	return s
}

func typed(k key, word string) any {
	switch {
	case k.isInt, k.isTime:
		return number(word)
	case k.typ == reflect.TypeFor[*bool]():
		return word == "true"
	}
	return word
}

// The schema in the documentation is the one of the types. -rewrite writes it.
func TestSchemaIsCurrent(t *testing.T) {
	want := makeSchema(t)
	if *rewrite {
		put(t, schemaFile, string(want))
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say: go test ./config -rewrite", schemaFile)
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, schemaFile)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// generic is a file as JSON would have it.
func generic(t testing.TB, data []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The schema accepts the good files, and says of each bad file what its head says: it knows
// keys, types, ranges and words, and not what settings demand of each other.
func TestSchemaOnTheCorpus(t *testing.T) {
	s := compile(t)
	for _, path := range append(corpus(t, ".good.yml"), "../docs/example.yml") {
		if err := s.Validate(generic(t, read(t, path))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	refused := 0
	for _, path := range corpus(t, ".bad.yml") {
		data := read(t, path)
		want := header(data, "schema")
		if want == "none" {
			continue
		}
		err := s.Validate(generic(t, data))
		if (err != nil) != (want == "refused") {
			t.Errorf("%s: want it %s, got %v", path, want, err)
		}
		refused += btoi(err != nil)
	}
	if refused < 40 {
		t.Errorf("the schema refuses %s files", strconv.Itoa(refused))
	}
}

// What the schema refuses, Load refuses too.
func TestSchemaRefusesNothingElse(t *testing.T) {
	s := compile(t)
	rapid.Check(t, func(r *rapid.T) {
		c := drawConfig(r)
		said := map[string]any{}
		for _, k := range keys {
			f := k.field(&c)
			if k.section || f.IsNil() {
				continue
			}
			section, name := parent(k.path)
			under(said, section)[name] = f.Interface()
		}
		data, err := yaml.Marshal(said)
		if err != nil {
			r.Fatal(err)
		}
		_, _, refused := Load(Source{Data: data})
		if err := s.Validate(generic(t, data)); err != nil && refused == nil {
			r.Fatalf("%s\n%v", data, err)
		}
	})
}

// under finds or makes a section of a file.
func under(m map[string]any, section string) map[string]any {
	if section == "" {
		return m
	}
	outer, name := parent(section)
	in := under(m, outer)
	if in[name] == nil {
		in[name] = map[string]any{}
	}
	return in[name].(map[string]any)
}
