// Command llama measures what kvferry adds to llama.cpp, with a real model, in one run: prompt and
// decode speed of llama.cpp alone, of an engine that does both, and of a prefill and a decode engine
// behind a router; and how much of a prompt's transfer its first token waits for, over slow links,
// in every mode. Everything is this one process, computes with the same number of threads, and is
// asked in turn, so that what else the machine does falls on all.
//
//	go run -tags llamacpp ./bench/llama -model FILE.gguf
package main
