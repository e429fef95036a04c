package doctor

import (
	"path"
	"strings"
)

// groups are the folders of the control groups that this process is in, for a controller of the
// older kind or, with an empty name, of the newer one: the inner first, and each that holds it, as
// the limits of all of them count.
func (d *patient) groups(controller string) (dirs []string) {
	text, err := d.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 || !has(part[1], controller) {
			continue
		}
		root := path.Join("/sys/fs/cgroup", part[1])
		for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
			dirs = append(dirs, path.Join(root, dir))
			if dir == "/" {
				return dirs
			}
		}
	}
	return nil
}

// has says whether a list of controllers has one; the list of the newer kind is empty.
func has(list, controller string) bool {
	if controller == "" {
		return list == ""
	}
	for _, c := range strings.Split(list, ",") {
		if c == controller {
			return true
		}
	}
	return false
}

// cpuLimit is how many processors' time a control group gives; 0 is no limit.
func (d *patient) cpuLimit() (limit float64) {
	take := func(quota, period uint64) {
		if quota > 0 && period > 0 && (limit == 0 || float64(quota)/float64(period) < limit) {
			limit = float64(quota) / float64(period)
		}
	}
	for _, dir := range d.groups("") {
		text, _ := d.ReadFile(dir + "/cpu.max")
		if f := strings.Fields(string(text)); len(f) == 2 {
			take(number(f[0]), number(f[1])) // "max" is no number, and no limit
		}
	}
	for _, dir := range d.groups("cpu") {
		take(d.value(dir+"/cpu.cfs_quota_us"), d.value(dir+"/cpu.cfs_period_us"))
	}
	return limit
}

// memoryLimit is the least of the control groups' limits, and what is used of it; 0 is none.
func (d *patient) memoryLimit() (limit, used uint64) {
	take := func(l, u uint64) {
		if l > 0 && (limit == 0 || l < limit) {
			limit, used = l, u
		}
	}
	for _, dir := range d.groups("") {
		take(d.value(dir+"/memory.max"), d.value(dir+"/memory.current"))
	}
	for _, dir := range d.groups("memory") {
		take(d.value(dir+"/memory.limit_in_bytes"), d.value(dir+"/memory.usage_in_bytes"))
	}
	return limit, used
}

func (d *patient) value(file string) uint64 {
	text, _ := d.ReadFile(file)
	return number(string(text))
}
