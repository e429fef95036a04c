package kernel

// vector says that the processor and the system have AVX2 and F16C. The vector code
// multiplies and adds in the order of the plain code, so both give the same bits.
var vector = detect()

func detect() bool {
	most, _, _, _ := cpuid(0, 0)
	if most < 7 {
		return false
	}
	const f16c, avx, osxsave, avx2 = 1 << 29, 1 << 28, 1 << 27, 1 << 5
	_, _, features, _ := cpuid(1, 0)
	if features&(f16c|avx|osxsave) != f16c|avx|osxsave {
		return false
	}
	// The system must save the vector registers.
	if xgetbv()&6 != 6 {
		return false
	}
	_, extended, _, _ := cpuid(7, 0)
	return extended&avx2 != 0
}

func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

func xgetbv() uint32

// gemm4AVX2, gemm2AVX2 and gemm1AVX2 are gemmPlain for 4, 2 and 1 rows.
//
//go:noescape
func gemm4AVX2(dst *float32, ldd int, x *float32, ldx int, w *float32, ldw, in int, add bool)

//go:noescape
func gemm2AVX2(dst *float32, ldd int, x *float32, ldx int, w *float32, ldw, in int, add bool)

//go:noescape
func gemm1AVX2(dst *float32, x, w *float32, ldw, in int, add bool)

// The rest take n elements, a multiple of 8.
//
//go:noescape
func expAVX2(x *float32, n int)

//go:noescape
func halvesToFloatsAVX2(dst *float32, src *byte, n int)

//go:noescape
func floatsToHalvesAVX2(dst *byte, src *float32, n int)

func gemm(dst []float32, ldd int, x []float32, ldx int, w []float32, ldw, n, in int, add bool) {
	if !vector || in == 0 {
		gemmPlain(dst, ldd, x, ldx, w, ldw, n, in, add)
		return
	}
	// The vector code checks no bounds; these are its last elements.
	_ = dst[(n-1)*ldd+panelCols-1]
	_ = x[(n-1)*ldx+in-1]
	_ = w[(in-1)*ldw+panelCols-1]
	switch n {
	case 4:
		gemm4AVX2(&dst[0], ldd, &x[0], ldx, &w[0], ldw, in, add)
	case 2:
		gemm2AVX2(&dst[0], ldd, &x[0], ldx, &w[0], ldw, in, add)
	default:
		gemm1AVX2(&dst[0], &x[0], &w[0], ldw, in, add)
	}
}

// expVector, halvesToFloatsVector and floatsToHalvesVector do the first so many elements
// and say how many.
func expVector(x []float32) int {
	n := len(x) &^ 7
	if !vector || n == 0 {
		return 0
	}
	expAVX2(&x[0], n)
	return n
}

func halvesToFloatsVector(dst []float32, src []byte) int {
	n := len(dst) &^ 7
	if !vector || n == 0 {
		return 0
	}
	halvesToFloatsAVX2(&dst[0], &src[0], n)
	return n
}

func floatsToHalvesVector(dst []byte, src []float32) int {
	n := len(src) &^ 7
	if !vector || n == 0 {
		return 0
	}
	floatsToHalvesAVX2(&dst[0], &src[0], n)
	return n
}
