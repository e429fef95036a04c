// Package wire holds what travels between processes: the handshake, and a fixed
// binary frame for each message, little endian, one file a frame. Decoders never
// panic and never allocate more than their input justifies.
package wire
