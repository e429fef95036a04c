//go:build (linux || darwin) && llamacpp

#include "go_asm.h"
#include "textflag.h"

// bool (*)(struct ggml_tensor * DI, bool SI, void * DX): see gate.
TEXT enter<>(SB), NOSPLIT|NOFRAME, $0
	TESTB SI, SI
	JZ    pass
	MOVL  tensor_op(DI), AX
	CMPL  AX, gate_op(DX)
	JEQ   pass
	XORL  AX, AX
	RET

pass:
	MOVQ gate_next(DX), AX
	JMP  AX

GLOBL ·gateEntry(SB), NOPTR|RODATA, $8
DATA ·gateEntry(SB)/8, $enter<>(SB)
