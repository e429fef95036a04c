//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import "log/slog"

const (
	defaultContext   = 8192
	defaultSequences = 16
	mostSequences    = 255 // of llama.cpp's 256; one is for export
)

func (o Options) withDefaults() Options {
	if o.Sequences == 0 {
		o.Sequences = defaultSequences
	}
	if o.Threads == 0 {
		o.Threads = 1
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
