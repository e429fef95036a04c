package kernel

import "fmt"

// panelCols is how many columns a panel has: two vectors of eight float32.
const panelCols = 16

// Matrix is a weight matrix that turns In inputs into Out outputs. It is packed
// into panels of 16 output columns, [panel][In][16], so that a product reads it
// from front to back. Columns past Out are padding; what they give is dropped.
type Matrix struct {
	In, Out int
	// cuts are the ends of the partial sums: [0,cuts[0]), [cuts[0],cuts[1]) ...
	cuts []int
	data []float32
}

// NewMatrix makes a matrix of zeros whose products are one sum over all inputs.
func NewMatrix(in, out int) *Matrix {
	return &Matrix{In: in, Out: out, cuts: []int{in}, data: make([]float32, panels(out)*in*panelCols)}
}

// Split makes every product a sum of partial sums, one over the inputs up to each cut,
// added in pairs: p0, p0+p1 or (p0+p1)+(p2+p3). One rank with four quarters of the
// inputs, two with two each and four with one each then give the same bits, if the
// ranks' results are added in pairs too. The last cut must be In.
func (m *Matrix) Split(cuts ...int) error {
	if n := len(cuts); n != 1 && n != 2 && n != 4 {
		return fmt.Errorf("%d partial sums: want 1, 2 or 4", n)
	}
	last := 0
	for _, c := range cuts {
		if c < last || c > m.In {
			return fmt.Errorf("cuts %v of a matrix with %d inputs", cuts, m.In)
		}
		last = c
	}
	if last != m.In {
		return fmt.Errorf("cuts %v leave inputs of %d out", cuts, m.In)
	}
	m.cuts = cuts
	return nil
}

// SetColumn sets the weights of output column out, one an input.
func (m *Matrix) SetColumn(out int, w []float32) {
	p := m.data[out/panelCols*m.In*panelCols+out%panelCols:]
	for k, v := range w[:m.In] {
		p[k*panelCols] = v
	}
}

// Panels is how many panels the matrix has; a product can be shared out by panels.
func (m *Matrix) Panels() int { return panels(m.Out) }

func panels(cols int) int { return (cols + panelCols - 1) / panelCols }

// Padded is the length of a row that takes the products of out columns.
func Padded(out int) int { return panels(out) * panelCols }

// Mul computes rows products for the panels [from,to): row r of dst, ldd apart,
// gets the products of row r of x, ldx apart. A dst row has room for whole panels.
func (m *Matrix) Mul(dst []float32, ldd int, x []float32, ldx, rows, from, to int) {
	for p := from; p < to; p++ {
		w := m.data[p*m.In*panelCols : (p+1)*m.In*panelCols]
		for r := 0; r < rows; {
			n := tileRows(rows - r)
			m.tile(dst[r*ldd+p*panelCols:], ldd, x[r*ldx:], ldx, w, n)
			r += n
		}
	}
}

// tile computes n rows of one panel.
func (m *Matrix) tile(dst []float32, ldd int, x []float32, ldx int, w []float32, n int) {
	m.pair(dst, ldd, x, ldx, w, n, 0)
	if len(m.cuts) <= 2 {
		return
	}
	var other [maxTileRows * panelCols]float32
	m.pair(other[:], panelCols, x, ldx, w, n, 2)
	for r := range n {
		row := dst[r*ldd : r*ldd+panelCols]
		for i, v := range other[r*panelCols : (r+1)*panelCols] {
			row[i] += v
		}
	}
}

// pair computes n rows of partial sum i of a panel, plus those of the next if there is one.
func (m *Matrix) pair(dst []float32, ldd int, x []float32, ldx int, w []float32, n, i int) {
	const ldw = panelCols
	from, to := 0, m.cuts[i]
	if i > 0 {
		from = m.cuts[i-1]
	}
	gemm(dst, ldd, x[from:], ldx, w[from*ldw:], ldw, n, to-from, false)
	if i+1 < len(m.cuts) {
		next := m.cuts[i+1]
		gemm(dst, ldd, x[to:], ldx, w[to*ldw:], ldw, n, next-to, true)
	}
}

// MulRows computes rows products with a matrix that is not packed: w has a row of
// cols columns, padded to ldw, for each of the in inputs. Each result is one sum over
// the inputs in order. Rows of w and dst have room for whole panels.
func MulRows(dst []float32, ldd int, x []float32, ldx int, w []float32, ldw, rows, in, cols int) {
	for c := 0; c < cols; c += panelCols {
		for r := 0; r < rows; {
			n := tileRows(rows - r)
			gemm(dst[r*ldd+c:], ldd, x[r*ldx:], ldx, w[c:], ldw, n, in, false)
			r += n
		}
	}
}

// maxTileRows is the most rows that gemm takes at once.
const maxTileRows = 4

func tileRows(left int) int {
	switch {
	case left >= 4:
		return 4
	case left >= 2:
		return 2
	}
	return 1
}

// gemmPlain computes n rows of 16 columns: dst[r][c] = sum over k < in of
// x[r][k]*w[k][c], from k = 0 up, starting at zero; add adds that sum to dst. The
// rows of dst, x and w are ldd, ldx and ldw apart.
func gemmPlain(dst []float32, ldd int, x []float32, ldx int, w []float32, ldw, n, in int, add bool) {
	for r := range n {
		var acc [panelCols]float32
		for k, v := range x[r*ldx : r*ldx+in] {
			row := (*[panelCols]float32)(w[k*ldw:])
			for c := range acc {
				// The conversion forbids fusing the product with the sum.
				acc[c] += float32(v * row[c])
			}
		}
		out := dst[r*ldd : r*ldd+panelCols]
		if !add {
			copy(out, acc[:])
			continue
		}
		for c := range acc {
			out[c] += acc[c]
		}
	}
}
