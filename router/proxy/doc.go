// Package proxy is the router as an HTTP server: it asks the engines whether they
// are ready, posts each client's request to a prefill and a decode engine, at once
// or one after the other, and passes the decode engine's answer on. What to do is
// decided in package router; this package has the sockets, the goroutines and the
// clock.
package proxy
