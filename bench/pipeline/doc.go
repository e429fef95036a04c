// Package pipeline measures what pipelining saves: how much of a prompt's KV transfer its first
// token has to wait for, monolithic, pipelined chunk by chunk and layer by layer, with the prompt
// cut into more and more chunks, over links of several bandwidths. The engines are the product's own, in this
// process, over real TCP that is slowed down to the bandwidth.
package pipeline
