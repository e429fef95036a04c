package lease

import (
	"syscall"
	"time"
)

// meter adds up what one kind of work costs.
type meter struct {
	cpu     time.Duration
	longest time.Duration
	bytes   int64 // of heartbeats
	beats   int64
	answers int64 // bytes of their answers
}

// run does some work and counts the processor time that the process spent meanwhile.
func (m *meter) run(work func()) {
	start := cpuTime()
	work()
	d := cpuTime() - start
	m.cpu += d
	m.longest = max(m.longest, d)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no cause but a wrong argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
