package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"testing"
)

// TestDraw: the drawing is well-formed whatever the names are, has each curve, a mark for each value
// of those that are measured, and everything inside.
func TestDraw(t *testing.T) {
	var b bytes.Buffer
	err := Draw(&b, `<&">`, []Panel{
		{Title: "a", X: []string{"1", "2", "3"}, Curves: []Curve{{Name: "m", Color: "#111", Y: []float64{0, 12.5, math.NaN()}}, {Name: "goal", Dashed: true, Y: []float64{1, 1, 1}}}},
		{Title: "none", X: []string{"1"}, Curves: []Curve{{Name: "m", Y: []float64{0}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for d := xml.NewDecoder(&b); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
	if count["svg"] != 1 || count["polyline"] != 3 || count["circle"] != 3 {
		t.Errorf("%v", count)
	}
}

func TestTick(t *testing.T) {
	for highest, want := range map[float64]float64{0: 1, 1: 0.2, 19: 2, 20: 5, 49: 5, 50: 10, 99: 10, 1200: 200} {
		if got := tick(highest); math.Abs(got-want) > want/1000 {
			t.Errorf("up to %v: every %v, want %v", highest, got, want)
		}
	}
}
