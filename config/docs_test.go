package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	docsFile  = "../docs/config.md"
	keysBegin = "<!-- keys -->\n"
	keysEnd   = "<!-- end of keys -->\n"
)

// The table of keys in the documentation is the one of the types: every key with its values,
// default and flag. -rewrite writes it.
func TestDocsAreCurrent(t *testing.T) {
	text := string(read(t, docsFile))
	head, rest, ok := strings.Cut(text, keysBegin)
	got, tail, ok2 := strings.Cut(rest, keysEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the keys", docsFile)
	}
	want := "\n" + keyTables() + "\n"
	if *rewrite {
		put(t, docsFile, head+keysBegin+want+keysEnd+tail)
		return
	}
	if got != want {
		t.Errorf("%s is not what the types say: go test ./config -rewrite", docsFile)
	}
}

// keyTables has one table for the top level and one for each kind of section.
func keyTables() string {
	var b strings.Builder
	for _, s := range []struct{ path, title string }{
		{"", "At the top level"},
		{contextServers, "In `context_servers` (prefill) and `generation_servers` (decode)"},
		{contextServers + ".llama_config", "In their `llama_config`"},
		{contextServers + ".kv_cache_config", "In their `kv_cache_config`"},
		{contextServers + ".cache_transceiver_config", "In their `cache_transceiver_config`"},
		{contextServers + ".cache_transceiver_config.tls", "In its `tls`"},
		{contextServers + ".cache_transceiver_config.nixl", "In its `nixl`"},
	} {
		fmt.Fprintf(&b, "%s:\n\n| key | values | default | what it is | flag |\n| --- | --- | --- | --- | --- |\n", s.title)
		for _, k := range keys {
			if in, name := parent(k.path); in == s.path && !k.section {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, k.values(), k.shown(), k.doc, flagsOf(k.path))
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (k key) values() string {
	switch {
	case k.words != nil:
		return "`" + strings.Join(k.words, "`, `") + "`"
	case k.typ.Kind() == reflect.Slice:
		return "list of text"
	case k.ranged():
		return decimal(k.min) + " to " + decimal(k.max)
	case k.typ == reflect.TypeFor[*bool]():
		return "`true`, `false`"
	}
	return "text"
}

func (k key) shown() string {
	switch {
	case k.inherit != "":
		return "the top level's"
	case k.typ.Kind() == reflect.Slice:
		return "none"
	}
	return "`" + k.fallback + "`"
}

// flagsOf are the flags that go before a key.
func flagsOf(path string) string {
	var flags []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Overrides]()) {
		flag := "`--" + f.Tag.Get("flag") + "`"
		if f.Tag.Get("flag") == "prefill" {
			flag += ", `--decode`"
		}
		if slices.Contains(expand(f.Tag.Get("keys"), Up), path) && !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	return strings.Join(flags, ", ")
}
