// Package transfer measures transfer agents between processes: how fast permuted blocks of one
// size move, written and read, what that costs of the processor, and how long a small message
// takes while they move.
//
// For each agent there are peers, processes of their own, that hold as much memory as we do. The
// rounds go through all agents and block sizes in turn, so that what else the machine does falls on
// all of them alike; medians are told. After each write the peer's memory is compared by its sum.
package transfer

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"kvferry/agent"
)

// Options of a run.
type Options struct {
	// Agents are the names of the agents, as Open knows them.
	Agents []string
	// Blocks are the sizes of blocks in bytes.
	Blocks []int
	// Total is how many bytes move in a round, with each peer.
	Total int
	// Peers is how many processes we move them to, or from, at once.
	Peers int
	// Rounds are counted; one more before them is not.
	Rounds int
	// Ops are write and read.
	Ops []string
	// Pings is how many small messages are timed beside the bulk; 0 is none.
	Pings int
	// Open makes an agent by its name, in the peers' processes, too.
	Open func(name string) (agent.Agent, error)
	// Peer starts a process of which Serve is all that it does, given an agent's name and
	// Total, and gives what it reads and writes.
	Peer func(name string, total int) (*Process, error)
	// Say, if set, is told how far it is.
	Say func(string)
}

// Process is a peer's process.
type Process struct {
	In  io.WriteCloser
	Out io.Reader
	// Wait waits for its end, after In was closed.
	Wait func() error
}

// DefaultOptions measure what the project's own table has.
func DefaultOptions() Options {
	return Options{
		Blocks: []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 2 << 20},
		Total:  256 << 20, Peers: 1, Rounds: 7, Ops: []string{opWrite, opRead}, Pings: 1000,
	}
}

const (
	opWrite = "write"
	opRead  = "read"
)

// validate names what is wrong.
func (o Options) validate() error {
	switch {
	case len(o.Agents) == 0:
		return errors.New("agents: name one")
	case o.Rounds < 1:
		return fmt.Errorf("rounds: %d, want 1 or more", o.Rounds)
	case o.Peers < 1 || o.Peers > 64:
		return fmt.Errorf("peers: %d, want 1 to 64", o.Peers)
	case o.Pings < 0:
		return fmt.Errorf("pings: %d, want 0 or more", o.Pings)
	case len(o.Blocks) == 0:
		return errors.New("blocks: name a size")
	}
	for _, b := range o.Blocks {
		if b < 8 || o.Total%b != 0 || o.Total < b {
			return fmt.Errorf("blocks: %d bytes, want a part of the total of %d", b, o.Total)
		}
	}
	for _, op := range o.Ops {
		if !slices.Contains([]string{opWrite, opRead}, op) {
			return fmt.Errorf("ops: %q, want write or read", op)
		}
	}
	return nil
}
