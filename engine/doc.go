// Package engine serves one model: it admits requests against the block pools,
// batches prefill chunks and decode steps, and plays the prefill or the decode
// side of a transfer. Engine is a pure machine (Step, Tick, Deadline, Outputs,
// as in package transfer): a forward pass goes out as Compute and comes back as
// Computed, and all memory, sockets and clocks are the shell's.
package engine
