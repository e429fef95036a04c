//go:build !race

package e2etest

// Race says that the race detector is on: everything computes several times slower.
const Race = false
