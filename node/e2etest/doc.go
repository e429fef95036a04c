// Package e2etest is what the end-to-end tests share: a client that keeps all that an
// answer says, clusters of engines and a router in one process, and the aggregated
// engine whose answers are the ones to equal.
package e2etest
