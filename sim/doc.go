// Package sim runs whole clusters of the product's own engines on a virtual clock and a
// virtual network, one goroutine a run, and checks what no real run can: that no byte is ever
// wrong, nothing is touched after its release, nothing leaks, nothing hangs, and every request
// ends exactly once, whatever breaks meanwhile.
//
// A Plan is one run written out: the cluster, the requests, and every fault with what sets it
// off. Generate draws a plan from a seed; Run executes it, and the same plan always gives the
// same run, to the last event; Shrink makes a failing plan small; a plan prints as a script
// that Parse reads back. The engines are engine.Engine itself. What sim plays is the shell
// around them (agent, forward passes, the router's part), held to the contracts of package
// agent and no more: what those do not promise, sim breaks at every chance.
package sim
