package main

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"kvferry/node"
)

// stopping is done with the first signal to end; force is done with the second.
type stopping struct {
	context.Context
	force context.Context
}

// stopSignal watches for Ctrl-C, SIGTERM and the end of a parent that started us.
func stopSignal() (stopping, func()) {
	first, stop := context.WithCancel(context.Background())
	second, force := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals
		force()
	}()
	watchParent(stop)
	return stopping{first, second}, func() { signal.Stop(signals) }
}

// watchParent calls gone when the parent that gave us a pipe has ended.
func watchParent(gone func()) {
	fd, err := strconv.Atoi(os.Getenv(node.ParentFD))
	if err != nil {
		return // started by hand
	}
	os.Unsetenv(node.ParentFD)
	pipe := os.NewFile(uintptr(fd), "parent")
	go func() {
		var b [1]byte
		_, _ = pipe.Read(b[:]) // nothing is ever written: it returns at the end
		gone()
	}()
}
