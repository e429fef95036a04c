// Package router is the router's core: which engines can serve, which prefill
// and decode engine a request gets, and the state machine that runs one request
// on the two. It is pure: polls, sockets and the clock are in router/proxy,
// which tells the core what happened and does what comes out.
package router
