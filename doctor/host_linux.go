package doctor

import (
	"errors"
	"os"
)

func machineMemory() (total, available uint64, err error) {
	d := patient{Probes: Probes{ReadFile: os.ReadFile}}
	total, available = 1024*number(d.meminfo("MemTotal")), 1024*number(d.meminfo("MemAvailable"))
	if total == 0 {
		return 0, 0, errors.New("/proc/meminfo does not say")
	}
	return total, available, nil
}
