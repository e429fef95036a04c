// Package doctor looks at a machine and says what kvferry would find there: what can compute, what
// can carry KV, how much fits, and what to do about what is missing.
//
// Everything that touches the system is in Probes, so that a test can be any machine. Run asks them
// and judges; it changes nothing on the machine.
package doctor
