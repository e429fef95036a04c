// Package kvferry is the root of a Go runtime for disaggregated LLM serving. The
// program is in cmd/kvferry; docs/architecture.md shows the rooms and the way of a
// request through them. This package holds the test of that architecture.
package kvferry
