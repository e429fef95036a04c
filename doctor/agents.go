package doctor

// carrier is a transfer agent, and what it needs.
type carrier struct {
	name string
	look func(*patient) (level Level, found, do string)
}

// carriers are all transfer agents.
var carriers = []carrier{
	{"tcp", (*patient).tcp},
	{"shm", (*patient).shm},
	{"nixl", (*patient).nixl},
}

func (d *patient) lookAtAgents() {
	for _, c := range carriers {
		level, found, do := c.look(d)
		d.add("agent "+c.name, level, do, "%s", found)
	}
}

func (d *patient) tcp() (Level, string, string) {
	if err := d.Listen("127.0.0.1:0"); err != nil {
		return Fail, "no TCP: " + err.Error(), "let this process listen on loopback"
	}
	return OK, "between hosts and on one", ""
}

func (d *patient) shm() (Level, string, string) {
	if err := d.SharedMemory(); err != nil {
		return Warn, "no shared memory: " + err.Error(), "tcp does without"
	}
	if err := d.UnixSocket(); err != nil {
		return Warn, "no socket for descriptors: " + err.Error(), "let TMPDIR name a folder that this process may write to; tcp does without"
	}
	return OK, "memory and sockets for engines on one host are there", ""
}

func (d *patient) nixl() (Level, string, string) {
	if !d.NIXLBuilt {
		return OK, "not in this program", "only for RDMA fabrics: build it with -tags nixl, on Linux"
	}
	file, err := d.FindNIXL("")
	if err != nil {
		return Warn, err.Error(), "only for RDMA fabrics"
	}
	return OK, file, ""
}
