package pipeline

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
)

// The measures of a plot in pixels: a panel for each link, side by side.
const (
	panelWidth, panelHeight = 300, 240
	marginLeft, marginRight = 64, 16
	marginTop, marginBottom = 84, 52
)

// solid is the dash pattern of a line without gaps.
const solid = "none"

// curve is one line of a panel.
type curve struct {
	name, color, dash string
	value             func(Row) float64
	mode              string
}

var curves = []curve{
	{name: "monolithic", color: "#8a8a8a", dash: solid, mode: monolithic, value: func(r Row) float64 { return r.Exposed }},
	{name: "pipelined", color: "#1f5fbf", dash: solid, mode: pipelined, value: func(r Row) float64 { return r.Exposed }},
	{name: "layer-wise", color: "#c2571a", dash: solid, mode: layerwise, value: func(r Row) float64 { return r.Exposed }},
	{name: "ideal: monolithic / chunks", color: "#2e8b57", dash: "5 4", mode: pipelined, value: func(r Row) float64 { return r.Ideal }},
}

// Plot draws the exposed time over the number of chunks as SVG.
func (r *Report) Plot(w io.Writer) error {
	var b bytes.Buffer
	var links []int64
	for _, row := range r.Rows {
		if !slices.Contains(links, row.Bandwidth) {
			links = append(links, row.Bandwidth)
		}
	}
	width := len(links) * (marginLeft + panelWidth + marginRight)
	height := marginTop + panelHeight + marginBottom
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(&b, marginLeft, 24, "start", 15, fmt.Sprintf("Exposed transfer: %s, %d tokens, %s of KV computed at %s",
		r.Model, r.PromptTokens, sizeText(float64(r.KVBytes)), rateText(r.KVRate)))
	legend(&b)
	for i, link := range links {
		p := panel{b: &b, left: i*(marginLeft+panelWidth+marginRight) + marginLeft}
		for _, row := range r.Rows {
			if row.Bandwidth == link {
				p.rows = append(p.rows, row)
			}
		}
		p.draw("link of " + rateText(float64(link)))
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func legend(b *bytes.Buffer) {
	x := marginLeft
	for _, c := range curves {
		line(b, x, 42, x+26, 42, c.color, c.dash, 2)
		text(b, x+32, 46, "start", 12, c.name)
		x += 56 + 7*len(c.name)
	}
}

// panel is one link's axes and curves.
type panel struct {
	b      *bytes.Buffer
	left   int
	rows   []Row
	chunks []int
	top    float64 // of the y axis, in ms
}

func (p *panel) draw(title string) {
	highest := 0.0
	for _, row := range p.rows {
		if !slices.Contains(p.chunks, row.Chunks) {
			p.chunks = append(p.chunks, row.Chunks)
		}
		highest = max(highest, row.Exposed*1000, row.Ideal*1000)
	}
	step := tick(highest)
	p.top = step * max(1, math.Ceil(highest/step))
	text(p.b, p.left+panelWidth/2, marginTop-12, "middle", 13, title)
	for v := 0.0; v <= p.top+step/2; v += step {
		y := p.y(v)
		line(p.b, p.left, y, p.left+panelWidth, y, "#e4e4e4", solid, 1)
		text(p.b, p.left-8, y+4, "end", 12, strconv.FormatFloat(v, 'g', 4, 64))
	}
	bottom := marginTop + panelHeight
	line(p.b, p.left, bottom, p.left+panelWidth, bottom, "#444", solid, 1)
	line(p.b, p.left, marginTop, p.left, bottom, "#444", solid, 1)
	for i, n := range p.chunks {
		line(p.b, p.x(i), bottom, p.x(i), bottom+4, "#444", solid, 1)
		text(p.b, p.x(i), bottom+18, "middle", 12, strconv.Itoa(n))
	}
	text(p.b, p.left+panelWidth/2, bottom+38, "middle", 12, "chunks")
	fmt.Fprintf(p.b, `<text transform="translate(%d %d) rotate(-90)" text-anchor="middle">exposed, ms</text>`+"\n",
		p.left-48, marginTop+panelHeight/2)
	for _, c := range curves {
		p.curve(c)
	}
}

func (p *panel) curve(c curve) {
	var points bytes.Buffer
	for _, row := range p.rows {
		if row.Mode != c.mode {
			continue
		}
		x, y := p.x(slices.Index(p.chunks, row.Chunks)), p.y(c.value(row)*1000)
		fmt.Fprintf(&points, "%d,%d ", x, y)
		if c.dash == solid {
			fmt.Fprintf(p.b, `<circle cx="%d" cy="%d" r="3" fill="%s"/>`+"\n", x, y, c.color)
		}
	}
	fmt.Fprintf(p.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
		bytes.TrimSpace(points.Bytes()), c.color, c.dash)
}

// x places the numbers of chunks at equal distances, y milliseconds from the bottom up.
func (p *panel) x(i int) int { return p.left + (2*i+1)*panelWidth/(2*len(p.chunks)) }

func (p *panel) y(ms float64) int { return marginTop + panelHeight - int(ms/p.top*panelHeight) }

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

func line(b *bytes.Buffer, x1, y1, x2, y2 int, color, dash string, width int) {
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="%d" stroke-dasharray="%s"/>`+"\n",
		x1, y1, x2, y2, color, width, dash)
}

func text(b *bytes.Buffer, x, y int, anchor string, size int, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" font-size="%d">%s</text>`+"\n", x, y, anchor, size, html.EscapeString(s))
}
