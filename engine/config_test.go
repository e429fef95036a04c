package engine

import (
	"strings"
	"testing"
)

func goodConfig() Config {
	return Config{
		Role: Prefill, Layout: layoutOf(4, 0), Blocks: []int{16}, MaxSeqs: 4, MaxWaiting: 8,
		Chunked: true, ChunkTokens: 8, Pipelined: true, Timeout: 1e9, Context: 64, Ends: []int32{0}, Text: letter,
	}
}

// TestConfigValidate: what no engine can have is refused when it is made, by its name.
//
// req: PIPE-22
func TestConfigValidate(t *testing.T) {
	if _, err := New(goodConfig()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Config){
		"max_num_seqs 0": func(c *Config) { c.MaxSeqs = 0 },
		"chunk-tokens 0": func(c *Config) { c.ChunkTokens = 0 },
		"pipelined transfer needs enable_chunked_prefi": func(c *Config) { c.Chunked = false },
		"kv_transfer_timeout 0":                         func(c *Config) { c.Timeout = 0 },
		"context 1":                                     func(c *Config) { c.Context = 1 },
		"layer group 0 has 0 blocks":                    func(c *Config) { c.Blocks[0] = 0 },
		"block tokens 0":                                func(c *Config) { c.Layout.BlockTokens = 0 },
	} {
		c := goodConfig()
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	c := goodConfig()
	c.Chunked, c.Pipelined, c.ChunkTokens = false, false, 0
	if _, err := New(c); err != nil {
		t.Errorf("without chunks: %v", err)
	}
}

func TestRoleNames(t *testing.T) {
	for role, want := range map[Role]string{Aggregated: "aggregated", Prefill: "prefill", Decode: "decode"} {
		if role.String() != want {
			t.Errorf("%d is %q, want %q", role, role, want)
		}
	}
}
