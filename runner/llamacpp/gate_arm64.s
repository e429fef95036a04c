//go:build (linux || darwin) && llamacpp

#include "go_asm.h"
#include "textflag.h"

// bool (*)(struct ggml_tensor * R0, bool R1, void * R2): see gate.
TEXT enter<>(SB), NOSPLIT|NOFRAME, $0
	ANDS $255, R1, R3
	BEQ  pass
	MOVW tensor_op(R0), R3
	MOVW gate_op(R2), R4
	CMPW R3, R4
	BEQ  pass
	MOVD $0, R0
	RET

pass:
	MOVD gate_next(R2), R3
	JMP  (R3)

GLOBL ·gateEntry(SB), NOPTR|RODATA, $8
DATA ·gateEntry(SB)/8, $enter<>(SB)
