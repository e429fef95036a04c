// Package node is the shell around the pure machines: goroutines, clock,
// sockets, HTTP and wiring. Loop drives an engine, Engine puts HTTP before it,
// Router serves the router, and Child runs any of them as a child process.
package node
