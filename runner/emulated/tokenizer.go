package emulated

// The tokens are the bytes 0 to 255 and two more.
const (
	bos   = 256
	eos   = 257
	vocab = 258
)

// tokenizer makes a token of each byte.
type tokenizer struct{}

func (tokenizer) Encode(text string) []int32 {
	out := make([]int32, len(text))
	for i := range out {
		out[i] = int32(text[i])
	}
	return out
}

func (tokenizer) Bytes(token int32) []byte {
	if token < 0 || token >= bos {
		return nil
	}
	return []byte{byte(token)}
}
