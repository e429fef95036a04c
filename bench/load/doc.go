// Package load puts a server that speaks OpenAI's API under load and says how it bears it:
// time to first token, time between tokens, throughput, and errors by kind. It can compare
// every answer with that of another server, which must give the same.
package load
