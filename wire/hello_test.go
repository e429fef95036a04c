package wire

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func drawHello(t *rapid.T) Hello {
	s := rapid.String()
	h := Hello{
		Role: s.Draw(t, "role"),
		Identity: Identity{
			Version: Version, Model: s.Draw(t, "model"), DType: s.Draw(t, "dtype"),
			BlockTokens: rapid.Uint32().Draw(t, "block tokens"), KVHeads: rapid.Uint32().Draw(t, "kv heads"),
			HeadDim: rapid.Uint32().Draw(t, "head dim"),
		},
		Geometry: Geometry{
			TensorParallel: rapid.Uint16().Draw(t, "tp"), PipelineParallel: rapid.Uint16().Draw(t, "pp"),
		},
	}
	drawBytes(t, h.Life[:])
	for range rapid.IntRange(0, 3).Draw(t, "groups") {
		g := Group{Window: rapid.Uint32().Draw(t, "window")}
		for range rapid.IntRange(0, 4).Draw(t, "layers") {
			g.Layers = append(g.Layers, rapid.Uint16().Draw(t, "layer"))
		}
		h.Identity.Groups = append(h.Identity.Groups, g)
	}
	for range rapid.IntRange(0, 4).Draw(t, "pools") {
		h.Geometry.Pools = append(h.Geometry.Pools, Pool{
			Region: rapid.Uint32().Draw(t, "region"), Blocks: rapid.Uint32().Draw(t, "blocks"),
			BlockBytes: rapid.Uint64().Draw(t, "block bytes"),
		})
	}
	h.Slots = Slots{
		Region: rapid.Uint32().Draw(t, "slots"), Count: rapid.Uint32().Draw(t, "slot count"),
		Duration: rapid.Int64().Draw(t, "duration"),
	}
	return h
}

var identity = Identity{
	Version: Version, Model: "abc", DType: "f16", BlockTokens: 16, KVHeads: 4, HeadDim: 32,
	Groups: []Group{{Window: 128, Layers: []uint16{0, 1}}, {Layers: []uint16{2}}},
}

// Whatever part of the identity differs is named; an equal identity passes.
//
// case: 07
func TestIdentityNamesWhatDiffers(t *testing.T) {
	same := identity
	same.Groups = []Group{{Window: 128, Layers: []uint16{0, 1}}, {Layers: []uint16{2}}}
	if err := identity.Check(same); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		field string
		spoil func(*Identity)
	}{
		"version":       {"protocol version", func(i *Identity) { i.Version++ }},
		"model":         {"model", func(i *Identity) { i.Model = "abd" }},
		"dtype":         {"kv dtype", func(i *Identity) { i.DType = "f32" }},
		"block tokens":  {"block tokens", func(i *Identity) { i.BlockTokens = 32 }},
		"kv heads":      {"kv heads", func(i *Identity) { i.KVHeads = 8 }},
		"head dim":      {"head dim", func(i *Identity) { i.HeadDim = 64 }},
		"window":        {"layer groups", func(i *Identity) { i.Groups = []Group{{Window: 64, Layers: []uint16{0, 1}}, {Layers: []uint16{2}}} }},
		"layer":         {"layer groups", func(i *Identity) { i.Groups = []Group{{Window: 128, Layers: []uint16{0, 2}}, {Layers: []uint16{1}}} }},
		"one more":      {"layer groups", func(i *Identity) { i.Groups = []Group{{Window: 128, Layers: []uint16{0, 1, 2}}, {}} }},
		"no groups":     {"layer groups", func(i *Identity) { i.Groups = nil }},
		"the first one": {"model", func(i *Identity) { i.Model, i.HeadDim = "x", 1 }},
	} {
		theirs := identity
		c.spoil(&theirs)
		for side, err := range map[string]error{"ours": identity.Check(theirs), "theirs": theirs.Check(identity)} {
			var m *MismatchError
			if !errors.As(err, &m) || m.Field != c.field || m.Ours == m.Theirs {
				t.Errorf("%s, %s: %v", name, side, err)
			}
		}
	}
}

// A hello of another protocol version is refused as that, whatever its layout is.
//
// case: 07
func TestHelloOfAnotherVersion(t *testing.T) {
	for name, b := range map[string][]byte{
		"the same layout": Hello{Identity: Identity{Version: Version + 1}}.Append(nil),
		"another layout":  {9, 0, 1, 2, 3},
		"nothing else":    {0, 0},
	} {
		_, err := DecodeHello(b)
		var m *MismatchError
		if !errors.As(err, &m) || m.Field != "protocol version" || m.Ours != fmt.Sprint(Version) || m.Theirs == m.Ours {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLifeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Life
		drawBytes(t, l[:])
		got, err := ParseLife(l.String())
		if err != nil || got != l {
			t.Fatalf("%s came back as %s, %v", l, got, err)
		}
	})
	for _, s := range []string{"", "00", "zz000000000000000000000000000000", Life{}.String() + "00"} {
		if l, err := ParseLife(s); err == nil {
			t.Errorf("%q is life %s", s, l)
		}
	}
}
