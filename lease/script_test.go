package lease

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"kvferry/wire"
)

// args are a command's: names without a value, and values by key.
type args struct{ d *datadriven.TestData }

func (a args) name() string { return a.d.CmdArgs[0].Key }

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) values(key string) []string {
	for _, x := range a.d.CmdArgs {
		if x.Key == key {
			return x.Vals
		}
	}
	return nil
}

func (a args) uint(t *testing.T, key string) uint64 {
	v := a.values(key)
	if len(v) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(v[0], 10, 64)
	if err != nil {
		a.d.Fatalf(t, "%s: %v", key, err)
	}
	return n
}

// at is the command's time, or the one before's.
func (a args) at(t *testing.T, now *int64) int64 {
	if v := a.values("at"); len(v) > 0 {
		d, err := time.ParseDuration(v[0])
		if err != nil {
			a.d.Fatalf(t, "%v", err)
		}
		*now = int64(d)
	}
	return *now
}

func (a args) leases(t *testing.T, key string) []wire.Lease {
	var out []wire.Lease
	for _, s := range a.values(key) {
		out = append(out, a.lease(t, s))
	}
	return out
}

// lease reads request/nonce/attempt.
func (a args) lease(t *testing.T, s string) wire.Lease {
	f := strings.Split(s, "/")
	if len(f) != 3 {
		a.d.Fatalf(t, "%q is no request/nonce/attempt", s)
	}
	nonce, err := strconv.ParseUint(f[1], 10, 64)
	attempt, err2 := strconv.ParseUint(f[2], 10, 32)
	if err = errors.Join(err, err2); err != nil {
		a.d.Fatalf(t, "%v", err)
	}
	return wire.Lease{Request: f[0], Nonce: nonce, Attempt: uint32(attempt)}
}

func life(name string) (l wire.Life) {
	copy(l[:], name)
	return l
}

func showTime(ns int64) string {
	if ns == math.MaxInt64 {
		return "never"
	}
	return time.Duration(ns).String()
}

func showLeases(list []wire.Lease) string {
	var out []string
	for _, l := range list {
		out = append(out, leaseText(l))
	}
	return strings.Join(out, " ")
}

func showAck(a *wire.HeartbeatAck) string {
	switch {
	case a == nil:
		return "no answer\n"
	case a.Resync:
		return fmt.Sprintf("resync, at version %d\n", a.Version)
	}
	s := fmt.Sprintf("ack version %d\n", a.Version)
	for _, r := range a.Refused {
		s += fmt.Sprintf("refused %s: %s\n", leaseText(r.Lease), r.Reason)
	}
	return s
}

// TestTableScripts: see the head of each script for what it shows.
func TestTableScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/table", func(t *testing.T, path string) {
		table, now := NewTable(int64(30*time.Second)), int64(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := runTable(t, table, &now, args{d})
			return out + fmt.Sprintf("= deadline %s, %d live\n", showTime(table.Deadline()), table.Len())
		})
	})
}

func runTable(t *testing.T, table *Table, now *int64, a args) string {
	at := a.at(t, now)
	switch a.d.Cmd {
	case "open":
		table.Open(a.name())
	case "nonce":
		table.SetNonce(a.name(), a.uint(t, "is"))
	case "grant":
		table.Grant(at, a.name())
	case "end":
		var why error
		if v := a.values("why"); len(v) > 0 {
			why = errors.New(v[0])
		}
		table.End(a.name(), why)
	case "lost":
		table.Lost(life(a.name()))
	case "beat":
		return showAck(table.Renew(at, life(a.name()), &wire.Heartbeat{
			Full: a.has("full"), Base: a.uint(t, "base"), Version: a.uint(t, "version"),
			Joined: a.leases(t, "join"), Left: a.leases(t, "left"),
		}))
	case "complete":
		m := &wire.Complete{Lease: a.lease(t, a.values("lease")[0])}
		if err := table.Complete(life(a.name()), m); err != nil {
			return "ignored: " + err.Error() + "\n"
		}
		return "fits\n"
	case "expire":
		return strings.Join(append(table.Expire(at), ""), " expired\n")
	case "until":
		until, ok := table.Claimed(a.name())
		return fmt.Sprintf("leased until %s, claimed %v %s\n", showTime(table.Until(a.name())), ok, showTime(until))
	default:
		a.d.Fatalf(t, "no command %s", a.d.Cmd)
	}
	return ""
}

// TestRenewalsScripts: see the head of each script for what it shows.
func TestRenewalsScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/renewals", func(t *testing.T, path string) {
		renewals, now := NewRenewals(), int64(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := runRenewals(t, renewals, &now, args{d})
			return out + fmt.Sprintf("= deadline %s, %d leases\n", showTime(renewals.Deadline()), renewals.Len())
		})
	})
}

func runRenewals(t *testing.T, renewals *Renewals, now *int64, a args) string {
	at := a.at(t, now)
	switch a.d.Cmd {
	case "up":
		d, err := time.ParseDuration(a.values("duration")[0])
		if err != nil {
			a.d.Fatalf(t, "%v", err)
		}
		renewals.Up(at, life(a.name()), int64(d))
	case "lost":
		renewals.Lost(life(a.name()))
	case "join":
		for _, l := range a.leases(t, "lease") {
			renewals.Join(at, life(a.name()), l)
		}
	case "leave":
		for _, l := range a.leases(t, "lease") {
			renewals.Leave(at, life(a.name()), l)
		}
	case "ack":
		ack := &wire.HeartbeatAck{Version: a.uint(t, "version"), Resync: a.has("resync")}
		for _, l := range a.leases(t, "refused") {
			ack.Refused = append(ack.Refused, wire.LeaseRefusal{Lease: l, Reason: "why"})
		}
		renewals.Acked(at, life(a.name()), ack)
	case "due":
		return showBeats(renewals.Due(at))
	default:
		a.d.Fatalf(t, "no command %s", a.d.Cmd)
	}
	return ""
}

func showBeats(beats []Beat) string {
	var s strings.Builder
	for _, b := range beats {
		fmt.Fprintf(&s, "to %s:", strings.TrimRight(string(b.Peer[:]), "\x00"))
		if b.Msg.Full {
			fmt.Fprintf(&s, " all of version %d", b.Msg.Version)
		} else {
			fmt.Fprintf(&s, " from version %d to %d", b.Msg.Base, b.Msg.Version)
		}
		if len(b.Msg.Joined) > 0 {
			s.WriteString(", in " + showLeases(b.Msg.Joined))
		}
		if len(b.Msg.Left) > 0 {
			s.WriteString(", out " + showLeases(b.Msg.Left))
		}
		fmt.Fprintf(&s, ", %d bytes\n", len(b.Msg.Append(nil)))
	}
	return s.String()
}
