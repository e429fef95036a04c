package kernel

func gemm(dst []float32, ldd int, x []float32, ldx int, w []float32, ldw, n, in int, add bool) {
	gemmPlain(dst, ldd, x, ldx, w, ldw, n, in, add)
}

func halvesToFloatsVector(dst []float32, src []byte) int { return 0 }
func expVector(x []float32) int                          { return 0 }
