// Package router is the router's core: which engines can serve, which prefill
// and decode engine a request gets, the state machine that runs one request on
// them and decides what is tried after a failure, and where the last turn of a
// conversation is held. It is pure: polls, sockets and the clock are in
// router/proxy, which tells the core what happened and does what comes out.
package router
