// Package chart draws curves over named points as SVG, some panels side by side.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// Curve is one line of a panel.
type Curve struct {
	Name, Color string
	// Dashed curves are goals and ideals; the others have a mark at each point.
	Dashed bool
	// Y has a value for each point of the panel; NaN leaves one out.
	Y []float64
}

// Panel is one pair of axes. Its points are at equal distances, and its values begin at 0.
type Panel struct {
	Title, XName, YName string
	X                   []string
	Curves              []Curve
}

// The measures of a drawing in pixels.
const (
	panelWidth, panelHeight = 300, 240
	marginLeft, marginRight = 64, 16
	marginTop, marginBottom = 60, 52
	lineHeight              = 16
)

// Draw writes a drawing of the panels.
func Draw(w io.Writer, title string, panels []Panel) error {
	top := marginTop
	for _, p := range panels {
		top = max(top, marginTop+lineHeight*len(p.Curves))
	}
	width, height := len(panels)*(marginLeft+panelWidth+marginRight), top+panelHeight+marginBottom
	d := drawing{top: top}
	fmt.Fprintf(&d.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&d.b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	d.text(marginLeft, 24, "start", 15, title)
	for i, p := range panels {
		d.panel(i*(marginLeft+panelWidth+marginRight)+marginLeft, p)
	}
	d.b.WriteString("</svg>\n")
	_, err := w.Write(d.b.Bytes())
	return err
}

type drawing struct {
	b   bytes.Buffer
	top int // of the axes
}

func (d *drawing) panel(left int, p Panel) {
	highest := 0.0
	for _, c := range p.Curves {
		for _, y := range c.Y {
			if !math.IsNaN(y) {
				highest = max(highest, y)
			}
		}
	}
	step := tick(highest)
	most := step * max(1, math.Ceil(highest/step))
	bottom := d.top + panelHeight
	y := func(v float64) int { return bottom - int(v/most*panelHeight) }
	x := func(i int) int { return left + (2*i+1)*panelWidth/(2*len(p.X)) }
	d.text(left+panelWidth/2, 48, "middle", 13, p.Title)
	for i, c := range p.Curves {
		at := 62 + lineHeight*i
		d.line(left, at, left+26, at, c)
		d.text(left+32, at+4, "start", 12, c.Name)
	}
	for v := 0.0; v <= most+step/2; v += step {
		d.line(left, y(v), left+panelWidth, y(v), Curve{Color: "#e4e4e4"})
		d.text(left-8, y(v)+4, "end", 12, strconv.FormatFloat(v, 'g', 4, 64))
	}
	axis := Curve{Color: "#444"}
	d.line(left, bottom, left+panelWidth, bottom, axis)
	d.line(left, d.top, left, bottom, axis)
	for i, name := range p.X {
		d.line(x(i), bottom, x(i), bottom+4, axis)
		d.text(x(i), bottom+18, "middle", 12, name)
	}
	d.text(left+panelWidth/2, bottom+38, "middle", 12, p.XName)
	fmt.Fprintf(&d.b, `<text transform="translate(%d %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		left-48, d.top+panelHeight/2, html.EscapeString(p.YName))
	for _, c := range p.Curves {
		d.curve(c, x, y)
	}
}

func (d *drawing) curve(c Curve, x func(int) int, y func(float64) int) {
	var points bytes.Buffer
	for i, v := range c.Y {
		if math.IsNaN(v) {
			continue
		}
		fmt.Fprintf(&points, "%d,%d ", x(i), y(v))
		if !c.Dashed {
			fmt.Fprintf(&d.b, `<circle cx="%d" cy="%d" r="3" fill="%s"/>`+"\n", x(i), y(v), c.Color)
		}
	}
	fmt.Fprintf(&d.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
		bytes.TrimSpace(points.Bytes()), c.Color, c.dash())
}

func (c Curve) dash() string {
	if c.Dashed {
		return "5 4"
	}
	return "none"
}

func (d *drawing) line(x1, y1, x2, y2 int, c Curve) {
	fmt.Fprintf(&d.b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-dasharray="%s"/>`+"\n", x1, y1, x2, y2, c.Color, c.dash())
}

func (d *drawing) text(x, y int, anchor string, size int, s string) {
	fmt.Fprintf(&d.b, `<text x="%d" y="%d" text-anchor="%s" font-size="%d">%s</text>`+"\n", x, y, anchor, size, html.EscapeString(s))
}

// tick is a round distance that puts four to ten lines under the highest value.
func tick(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(highest)))
	switch {
	case highest/base < 2:
		return base / 5
	case highest/base < 5:
		return base / 2
	}
	return base
}
