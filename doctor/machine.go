package doctor

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

func (d *patient) lookAtCores() {
	const name = "cores"
	limit := d.cpuLimit()
	if limit == 0 || limit >= float64(d.CPUs) {
		d.add(name, OK, "", "%d, and no control group limits them", d.CPUs)
		return
	}
	d.add(name, Warn, fmt.Sprintf("let llama.cpp have at most --threads %d: its threads wait for each other by spinning", max(1, int(limit))),
		"%d, of which a control group gives the time of %.2g", d.CPUs, limit)
}

func (d *patient) lookAtMemory() {
	const name = "memory"
	total, available, err := d.room()
	if err != nil {
		d.add(name, Warn, "", "unknown: %v", err)
		return
	}
	d.add(name, OK, "", "%s, of which %s are available", size(total), size(available))
}

// room is the memory that there is, within the limit of a control group.
func (d *patient) room() (total, available uint64, err error) {
	total, available, err = d.Memory()
	if err != nil {
		return 0, 0, err
	}
	if limit, used := d.memoryLimit(); limit > 0 && limit < total {
		total, available = limit, min(available, limit-min(limit, used))
	}
	return total, available, nil
}

func (d *patient) lookAtLargePages() {
	const name = "large pages"
	if d.OS != "linux" {
		d.add(name, OK, "", "not asked for on %s", d.OS)
		return
	}
	free := number(d.meminfo("HugePages_Free"))
	if free > 0 && number(d.meminfo("Hugepagesize")) == 2048 {
		d.add(name, OK, "", "%d of 2 MiB are set aside and free; pools take them where they are enough", free)
		return
	}
	text, _ := d.ReadFile("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
	if b := bytes.Fields(text); len(b) > 0 && !bytes.Contains(text, []byte("[never]")) && !bytes.Contains(text, []byte("[deny]")) {
		d.add(name, OK, "", "none are set aside, but the kernel makes them of shared memory")
		return
	}
	d.add(name, OK, "for faster transfers of large pools: sysctl vm.nr_hugepages=N, each of 2 MiB", "none are set aside; pools take small ones")
}

// meminfo is a field of the kernel's account of memory.
func (d *patient) meminfo(field string) string {
	text, _ := d.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return rest
		}
	}
	return ""
}

// number is the first word, as a number; 0 is none.
func number(text string) uint64 {
	word := strings.Fields(text)
	if len(word) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(word[0], 10, 64)
	return n
}

// size writes bytes for people.
func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	default:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
}
