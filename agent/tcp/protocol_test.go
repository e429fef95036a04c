package tcp_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/fault"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// A peer that breaks the protocol is lost, with the cause, and nothing else happens.
func TestProtocolErrors(t *testing.T) {
	ok := []wire.Range{{Length: 4}}
	write := func(w wire.Write) []byte { return append(wire.Pack(wire.FrameWrite, w), 1, 2, 3, 4) }
	for name, c := range map[string]struct {
		control, bulk []byte
		want          string
	}{
		"a write on control":     {control: write(wire.Write{Ranges: ok}), want: "control connection"},
		"a hello again":          {control: wire.Pack(wire.FrameHello, hello(2)), want: "control connection"},
		"an ack of nothing":      {control: wire.Pack(wire.FrameAck, wire.Ack{Transfer: 7}), want: "ack of transfer 7"},
		"a refusal of nothing":   {control: wire.Pack(wire.FrameAck, wire.Ack{Transfer: 7, Refused: true}), want: "ack of transfer 7"},
		"a broken ack":           {control: wire.Pack(wire.FrameAck, wire.Raw{1}), want: "too short"},
		"a broken ping":          {control: wire.Pack(wire.FramePing, wire.Raw{1}), want: "too short"},
		"a broken pong":          {control: wire.Pack(wire.FramePong, wire.Raw{1}), want: "too short"},
		"a broken read":          {control: wire.Pack(wire.FrameRead, wire.Raw{1}), want: "too short"},
		"a broken bye":           {control: wire.Pack(wire.FrameBye, wire.Raw{1}), want: "too short"},
		"a bye":                  {control: wire.Pack(wire.FrameBye, wire.Bye{Reason: "tea time"}), want: "tea time"},
		"an unknown kind":        {control: []byte{0, 0, 0, 0, 99}, want: "kind 99"},
		"a long notice":          {control: []byte{255, 255, 255, 255, byte(wire.FrameNotice)}, want: "longer than"},
		"a notice on bulk":       {bulk: wire.Pack(wire.FrameNotice, wire.Raw("x")), want: "bulk connection"},
		"a broken write":         {bulk: wire.Pack(wire.FrameWrite, wire.Raw{1}), want: "too short"},
		"a broken answer":        {bulk: wire.Pack(wire.FrameData, wire.Raw{1}), want: "too short"},
		"garbage on bulk":        {bulk: []byte("GET / HTTP/1.1\r\n\r\n"), want: "wire:"},
		"an answer to nothing":   {bulk: wire.Pack(wire.FrameData, wire.ReadData{Transfer: 3}), want: "not asked for"},
		"a part twice":           {bulk: append(write(wire.Write{Ranges: ok, Epoch: 1}), write(wire.Write{Ranges: ok, Epoch: 1})...), want: "part 0"},
		"a part left out":        {bulk: append(write(wire.Write{Ranges: ok, Epoch: 1}), write(wire.Write{Ranges: ok, Epoch: 1, Part: 2})...), want: "part 2"},
		"another checksum":       {bulk: write(wire.Write{Ranges: ok, Epoch: 1, Last: true, Sum: wire.Sum32{Made: true, Value: 1}}), want: "bytes changed"},
		"the end of the control": {want: "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			a, mem := running(t, tcp.Options{})
			p := pose(t, a, 2)
			await[agent.PeerUp](t, a)
			a.Grant(1, wire.Life{2}, []agent.Desc{{Length: 100}})
			p.bulk.say(c.bulk)
			p.control.say(c.control)
			if c.bulk == nil && c.control == nil {
				must(t, p.control.Close())
			}
			e := await[agent.PeerLost](t, a)
			if !errors.Is(e.Err, agent.ErrPeerLost) || !strings.Contains(e.Err.Error(), c.want) {
				t.Errorf("%v, which says nothing of %q", e.Err, c.want)
			}
			for i, v := range mem[4:] {
				if v != 0 {
					t.Fatalf("byte %d is written", i+4)
				}
			}
		})
	}
}

// What a peer sends to a write of ours too early, or to a read of ours wrongly, loses it, and
// the transfer ends with an error once.
func TestWrongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		start  func(*tcp.Agent, agent.Transfer)
		answer func(stranded)
	}{
		"an ack of a read": {(*tcp.Agent).Read, func(p stranded) {
			p.control.hear(wire.FrameRead)
			p.control.say(wire.Pack(wire.FrameAck, wire.Ack{Transfer: 1}))
		}},
		"a short answer": {(*tcp.Agent).Read, func(p stranded) {
			p.control.hear(wire.FrameRead)
			p.bulk.say(wire.Pack(wire.FrameData, wire.ReadData{Transfer: 1, Bytes: 5}), make([]byte, 5))
		}},
		"a later part": {(*tcp.Agent).Read, func(p stranded) {
			p.control.hear(wire.FrameRead)
			p.bulk.say(wire.Pack(wire.FrameData, wire.ReadData{Transfer: 1, Part: 1, Bytes: 1 << 20}))
		}},
		"data for a write": {(*tcp.Agent).Write, func(p stranded) {
			p.bulk.hear(wire.FrameWrite)
			p.bulk.say(wire.Pack(wire.FrameData, wire.ReadData{Transfer: 1, Bytes: 1 << 20}))
		}},
		"an early ack": {(*tcp.Agent).Write, func(p stranded) {
			p.bulk.hear(wire.FrameWrite)
			p.control.say(wire.Pack(wire.FrameAck, wire.Ack{Transfer: 1}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := running(t, tcp.Options{})
			p := pose(t, a, 2)
			await[agent.PeerUp](t, a)
			// Of 8 parts of 1 MiB, more than the kernel takes at once.
			c.start(a, transfer(1, 2, size, ""))
			c.answer(p)
			if d := await[agent.Done](t, a); d.ID != 1 || !errors.Is(d.Err, agent.ErrPeerLost) {
				t.Errorf("%+v", d)
			}
			await[agent.PeerLost](t, a)
		})
	}
}

// A write whose refusal comes while it is being sent ends when the kernel has its frame, and
// what was not sent stays unsent.
func TestRefusedInTheMiddle(t *testing.T) {
	const frame = 64 << 10
	a, _ := running(t, tcp.Options{FrameBytes: frame})
	p := pose(t, a, 2)
	await[agent.PeerUp](t, a)
	a.Write(transfer(1, 2, size, "never"))
	w, err := wire.DecodeWrite(p.bulk.hear(wire.FrameWrite))
	must(t, err)
	p.control.say(
		wire.Pack(wire.FrameAck, wire.Ack{Transfer: w.Transfer, Refused: true, Reason: "not now"}),
		wire.Pack(wire.FramePing, wire.Ping{}))
	p.control.hear(wire.FramePong) // it has read the refusal
	parts := make(chan int, 1)
	go func() { parts <- p.partsOf(w) }()
	if d := await[agent.Done](t, a); d.ID != 1 || !errors.Is(d.Err, agent.ErrRefused) || !strings.Contains(d.Err.Error(), "not now") {
		t.Errorf("%+v", d)
	}
	a.Write(transfer(2, 2, 1, ""))
	if n := <-parts; n < 1 || n >= size/frame {
		t.Errorf("%d parts of a refused write were sent, of %d", n, size/frame)
	}
}

// A refusal that comes while the kernel still takes a frame from our blocks does not end the
// write before it has them all: until Done the blocks are not the caller's.
func TestDoneWaitsForTheBlocks(t *testing.T) {
	g := fault.NewGate()
	a, _ := running(t, tcp.Options{Conn: g.Bulk})
	p := pose(t, a, 2)
	await[agent.PeerUp](t, a)
	g.Allow(10000)
	a.Write(transfer(1, 2, size, "never"))
	w, err := wire.DecodeWrite(p.bulk.hear(wire.FrameWrite))
	must(t, err)
	<-g.Held()
	p.control.say(
		wire.Pack(wire.FrameAck, wire.Ack{Transfer: w.Transfer, Refused: true, Reason: "not now"}),
		wire.Pack(wire.FrameAck, wire.Ack{Transfer: w.Transfer, Refused: true, Reason: "again"}),
		wire.Pack(wire.FrameNotice, wire.Raw("after it")))
	if e, ok := (<-a.Events()).(agent.Notice); !ok {
		t.Fatalf("%v came before the frame was sent", e)
	}
	g.Open()
	_, err = io.CopyN(io.Discard, p.bulk, int64(wire.Sum(w.Ranges)))
	must(t, err)
	if d := await[agent.Done](t, a); !errors.Is(d.Err, agent.ErrRefused) || !strings.Contains(d.Err.Error(), "not now") {
		t.Errorf("%+v", d)
	}
}

// partsOf reads how many parts of a write there are before another one's, or gives -1.
func (p stranded) partsOf(w wire.Write) int {
	for first, n := w.Transfer, 0; ; n++ {
		if w.Transfer != first {
			return n
		}
		if _, err := io.CopyN(io.Discard, p.bulk, int64(wire.Sum(w.Ranges))+int64(w.Notice)); err != nil {
			return -1
		}
		f, b, err := p.bulk.frame()
		if err != nil || f != wire.FrameWrite {
			return -1
		}
		if w, err = wire.DecodeWrite(b); err != nil {
			return -1
		}
	}
}

// Pings are answered and sent, and an idle peer that answers is not lost.
func TestPings(t *testing.T) {
	a, _ := running(t, tcp.Options{Ping: 20 * time.Millisecond, DeadAfter: 600 * time.Millisecond})
	p := pose(t, a, 2)
	await[agent.PeerUp](t, a)
	p.control.say(wire.Pack(wire.FramePing, wire.Ping{Seq: 99}))
	if q, err := wire.DecodePing(p.control.hear(wire.FramePong)); err != nil || q.Seq != 99 {
		t.Errorf("%+v, %v", q, err)
	}
	for range 50 { // longer than DeadAfter
		p.control.say(wire.Pack(wire.FramePong, wire.Raw(p.control.hear(wire.FramePing))))
	}
	a.Notify(wire.Life{2}, []byte("still there"))
	p.control.hear(wire.FrameNotice)
	select {
	case e := <-a.Events():
		t.Errorf("%T %v", e, e)
	default:
	}
}

// A peer that says nothing any more is lost in time, whatever is on its way to it.
//
// case: 05
func TestSilentPeerIsLost(t *testing.T) {
	a, _ := running(t, tcp.Options{Ping: 20 * time.Millisecond, DeadAfter: 200 * time.Millisecond})
	pose(t, a, 2)
	await[agent.PeerUp](t, a)
	for id := range uint64(4) {
		a.Write(transfer(id, 2, size, "never"))
	}
	a.Read(transfer(4, 2, size, ""))
	begin := time.Now()
	for range 5 {
		if d := await[agent.Done](t, a); !errors.Is(d.Err, agent.ErrPeerLost) {
			t.Errorf("%+v", d)
		}
	}
	if e := await[agent.PeerLost](t, a); !strings.Contains(e.Err.Error(), "no sign of life") {
		t.Error(e.Err)
	}
	if d := time.Since(begin); d < 100*time.Millisecond {
		t.Errorf("after %v already", d)
	}
}

// A peer that takes no notices off us is dropped before its queue is without bound, and the
// caller is never held up.
func TestControlQueueIsBounded(t *testing.T) {
	a, _ := running(t, tcp.Options{DeadAfter: time.Hour})
	pose(t, a, 2)
	await[agent.PeerUp](t, a)
	for range 200 {
		a.Notify(wire.Life{2}, make([]byte, 1<<20))
	}
	if e := await[agent.PeerLost](t, a); !strings.Contains(e.Err.Error(), "queue is full") {
		t.Error(e.Err)
	}
}

func TestLongNoticeDropsThePeer(t *testing.T) {
	a, _ := running(t, tcp.Options{})
	pose(t, a, 2)
	await[agent.PeerUp](t, a)
	a.Notify(wire.Life{2}, make([]byte, wire.MaxNotice+1))
	if e := await[agent.PeerLost](t, a); !strings.Contains(e.Err.Error(), "longer than") {
		t.Error(e.Err)
	}
}
