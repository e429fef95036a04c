#include "textflag.h"

// func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	MOVL DX, edx+20(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET

// One row's step: the accumulators lo and hi gain x*w for 16 columns. The weights are in Y8
// and Y9, the row's x is at its pointer plus BX.
#define ROW(ptr, lo, hi) \
	VBROADCASTSS (ptr)(BX*1), Y10; \
	VMULPS       Y8, Y10, Y11;     \
	VMULPS       Y9, Y10, Y12;     \
	VADDPS       Y11, lo, lo;      \
	VADDPS       Y12, hi, hi

// A row's sums go to dst (DI), which moves on by a row.
#define STORE(lo, hi) \
	VMOVUPS lo, (DI);   \
	VMOVUPS hi, 32(DI); \
	ADDQ    R8, DI

#define STOREADD(lo, hi) \
	VADDPS (DI), lo, lo;   \
	VADDPS 32(DI), hi, hi; \
	STORE(lo, hi)

// func gemm4AVX2(dst *float32, ldd int, x *float32, ldx int, w *float32, ldw, in int, add bool)
TEXT ·gemm4AVX2(SB), NOSPLIT, $0-57
	MOVQ dst+0(FP), DI
	MOVQ ldd+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ ldx+24(FP), R9
	MOVQ w+32(FP), DX
	MOVQ ldw+40(FP), R10
	MOVQ in+48(FP), CX
	MOVBLZX add+56(FP), AX
	SHLQ $2, R8
	SHLQ $2, R9
	SHLQ $2, R10
	LEAQ (SI)(R9*1), R11
	LEAQ (R11)(R9*1), R12
	LEAQ (R12)(R9*1), R13
	XORQ BX, BX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

loop4:
	VMOVUPS (DX), Y8
	VMOVUPS 32(DX), Y9
	ROW(SI, Y0, Y1)
	ROW(R11, Y2, Y3)
	ROW(R12, Y4, Y5)
	ROW(R13, Y6, Y7)
	ADDQ R10, DX
	ADDQ $4, BX
	DECQ CX
	JNZ  loop4
	TESTL AX, AX
	JNZ  add4
	STORE(Y0, Y1)
	STORE(Y2, Y3)
	STORE(Y4, Y5)
	STORE(Y6, Y7)
	VZEROUPPER
	RET

add4:
	STOREADD(Y0, Y1)
	STOREADD(Y2, Y3)
	STOREADD(Y4, Y5)
	STOREADD(Y6, Y7)
	VZEROUPPER
	RET

// func gemm2AVX2(dst *float32, ldd int, x *float32, ldx int, w *float32, ldw, in int, add bool)
TEXT ·gemm2AVX2(SB), NOSPLIT, $0-57
	MOVQ dst+0(FP), DI
	MOVQ ldd+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ ldx+24(FP), R9
	MOVQ w+32(FP), DX
	MOVQ ldw+40(FP), R10
	MOVQ in+48(FP), CX
	MOVBLZX add+56(FP), AX
	SHLQ $2, R8
	SHLQ $2, R9
	SHLQ $2, R10
	LEAQ (SI)(R9*1), R11
	XORQ BX, BX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3

loop2:
	VMOVUPS (DX), Y8
	VMOVUPS 32(DX), Y9
	ROW(SI, Y0, Y1)
	ROW(R11, Y2, Y3)
	ADDQ R10, DX
	ADDQ $4, BX
	DECQ CX
	JNZ  loop2
	TESTL AX, AX
	JNZ  add2
	STORE(Y0, Y1)
	STORE(Y2, Y3)
	VZEROUPPER
	RET

add2:
	STOREADD(Y0, Y1)
	STOREADD(Y2, Y3)
	VZEROUPPER
	RET

// func gemm1AVX2(dst *float32, x, w *float32, ldw, in int, add bool)
TEXT ·gemm1AVX2(SB), NOSPLIT, $0-41
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ ldw+24(FP), R10
	MOVQ in+32(FP), CX
	MOVBLZX add+40(FP), AX
	SHLQ $2, R10
	XORQ BX, BX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

loop1:
	VMOVUPS (DX), Y8
	VMOVUPS 32(DX), Y9
	ROW(SI, Y0, Y1)
	ADDQ R10, DX
	ADDQ $4, BX
	DECQ CX
	JNZ  loop1
	TESTL AX, AX
	JNZ  add1
	STORE(Y0, Y1)
	VZEROUPPER
	RET

add1:
	STOREADD(Y0, Y1)
	VZEROUPPER
	RET

// The constants of expPlain, as float32 bits, and its 127.
DATA expConst<>+0(SB)/4, $0xc2ae0000  // expLow
DATA expConst<>+4(SB)/4, $0x42b00000  // expHigh
DATA expConst<>+8(SB)/4, $0x3fb8aa3b  // log2e
DATA expConst<>+12(SB)/4, $0x4b400000 // roundMagic
DATA expConst<>+16(SB)/4, $0x3f318000 // ln2Head
DATA expConst<>+20(SB)/4, $0xb95e8083 // ln2Tail
DATA expConst<>+24(SB)/4, $0x39500d01 // 1/5040
DATA expConst<>+28(SB)/4, $0x3ab60b61 // 1/720
DATA expConst<>+32(SB)/4, $0x3c088889 // 1/120
DATA expConst<>+36(SB)/4, $0x3d2aaaab // 1/24
DATA expConst<>+40(SB)/4, $0x3e2aaaab // 1/6
DATA expConst<>+44(SB)/4, $0x3f000000 // 1/2
DATA expConst<>+48(SB)/4, $0x3f800000 // 1
DATA expConst<>+52(SB)/4, $127
GLOBL expConst<>(SB), RODATA|NOPTR, $56

// p = p*r + the constant at the offset.
#define HORNER(offset) \
	VBROADCASTSS expConst<>+offset(SB), Y3; \
	VMULPS       Y1, Y2, Y2;                \
	VADDPS       Y3, Y2, Y2

// func expAVX2(x *float32, n int)
TEXT ·expAVX2(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS expConst<>+0(SB), Y8
	VBROADCASTSS expConst<>+4(SB), Y9
	VBROADCASTSS expConst<>+8(SB), Y10
	VBROADCASTSS expConst<>+12(SB), Y11
	VBROADCASTSS expConst<>+16(SB), Y12
	VBROADCASTSS expConst<>+20(SB), Y13
	VPBROADCASTD expConst<>+52(SB), Y14

loopexp:
	VMOVUPS (DI), Y1
	VMAXPS  Y1, Y8, Y1 // of a NaN and a number these give x, the NaN
	VMINPS  Y1, Y9, Y1
	VMULPS  Y10, Y1, Y0
	VADDPS  Y11, Y0, Y0
	VSUBPS  Y11, Y0, Y0 // n
	VMULPS  Y12, Y0, Y3
	VSUBPS  Y3, Y1, Y1
	VMULPS  Y13, Y0, Y3
	VSUBPS  Y3, Y1, Y1 // r
	VBROADCASTSS expConst<>+24(SB), Y2
	HORNER(28)
	HORNER(32)
	HORNER(36)
	HORNER(40)
	HORNER(44)
	HORNER(48)
	HORNER(48)
	VCVTPS2DQ Y0, Y0
	VPADDD  Y14, Y0, Y0
	VPSLLD  $23, Y0, Y0
	VMULPS  Y0, Y2, Y2
	VMOVUPS Y2, (DI)
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loopexp
	VZEROUPPER
	RET

// func halvesToFloatsAVX2(dst *float32, src *byte, n int)
TEXT ·halvesToFloatsAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loopwiden:
	VCVTPH2PS (SI), Y0
	VMOVUPS   Y0, (DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	SUBQ      $8, CX
	JNZ       loopwiden
	VZEROUPPER
	RET

// func floatsToHalvesAVX2(dst *byte, src *float32, n int)
TEXT ·floatsToHalvesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loopnarrow:
	VMOVUPS   (SI), Y0
	VCVTPS2PH $0, Y0, (DI) // 0: to nearest, ties to even
	ADDQ      $32, SI
	ADDQ      $16, DI
	SUBQ      $8, CX
	JNZ       loopnarrow
	VZEROUPPER
	RET
