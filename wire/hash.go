package wire

import (
	"crypto/sha256"
	"encoding/binary"
)

// TokenHash identifies a prompt by its token IDs (PIPE-34).
func TokenHash(tokens []int32) [32]byte {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}
