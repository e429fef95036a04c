package wire

import (
	"errors"
	"strings"
	"testing"
)

// Of models that are described in parts, what differs is named alone, whichever it is; of others,
// all is said.
//
// case: 15
func TestModelNamesWhatDiffers(t *testing.T) {
	ours := identity
	ours.Model = "llama.cpp v0.5.0, flash attention on, K f16, V f16, file aa11"
	for name, c := range map[string]struct{ theirs, want string }{
		"version":         {"llama.cpp v0.5.1, flash attention on, K f16, V f16, file aa11", "model's llama.cpp is v0.5.0 here and v0.5.1 there"},
		"flash attention": {"llama.cpp v0.5.0, flash attention off, K f16, V f16, file aa11", "model's flash attention is on here and off there"},
		"keys":            {"llama.cpp v0.5.0, flash attention on, K q8_0, V f16, file aa11", "model's K is f16 here and q8_0 there"},
		"values":          {"llama.cpp v0.5.0, flash attention on, K f16, V q8_0, file aa11", "model's V is f16 here and q8_0 there"},
		"file":            {"llama.cpp v0.5.0, flash attention on, K f16, V f16, file bb22", "model's file is aa11 here and bb22 there"},
		"the first":       {"llama.cpp v9, flash attention off, K f32, V f32, file bb22", "model's llama.cpp is v0.5.0 here and v9 there"},
		"another runner":  {"bb22", "model is " + ours.Model + " here and bb22 there"},
		"another part":    {"llama.cpp v0.5.0, flash attention on, K f16, V f16, path aa11", "model is "},
		"a part more":     {ours.Model + ", x y", "model is "},
		"no names":        {"v0.5.0, on, f16, f16, aa11", "model is "},
	} {
		theirs := identity
		theirs.Model = c.theirs
		err := ours.Check(theirs)
		var m *MismatchError
		if !errors.As(err, &m) || !strings.HasPrefix(err.Error(), "peers cannot exchange KV: "+c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if back := theirs.Check(ours); back == nil {
			t.Errorf("%s: only one side refuses", name)
		}
	}
	plain, other := identity, identity
	plain.Model, other.Model = "a, b", "a, c" // no names: nothing of them is left out
	if err := plain.Check(other); err == nil || !strings.Contains(err.Error(), "model is a, b here and a, c there") {
		t.Error(err)
	}
}
