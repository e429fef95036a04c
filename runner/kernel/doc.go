// Package kernel holds the arithmetic of the reference runner: half-precision
// conversion, matrix products and the exponential.
//
// Every function gives the same bits on every machine: each sum is taken in one
// fixed order, each product is rounded before it is added (no fused
// multiply-add), and the vector code runs the same operations as the plain Go
// code, on more lanes.
package kernel
