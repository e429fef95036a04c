//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import "runtime"

// thread is one thread of the system, on which all calls to a context are made.
type thread struct {
	calls chan func()
	ended chan struct{}
}

func newThread() *thread {
	t := &thread{make(chan func()), make(chan struct{})}
	go func() {
		// It is unlocked at the end and so outlives its work: where a thread that had called
		// llama.cpp ended, the process crashed.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(t.ended)
		for call := range t.calls {
			call()
		}
	}()
	return t
}

// do makes a call and waits for it.
func (t *thread) do(call func() error) error {
	done := make(chan error)
	t.calls <- func() { done <- call() }
	return <-done
}

// end waits until the thread has ended; nothing may be called any more.
func (t *thread) end() {
	close(t.calls)
	<-t.ended
}
