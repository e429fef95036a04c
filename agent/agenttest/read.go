package agenttest

import (
	"bytes"
	"errors"

	"kvferry/agent"
)

// A read needs no grant. Its bytes are in our memory, and nowhere else, when Done comes.
func readLands(s *suite) {
	a, b := s.pair(Options{FrameBytes: 3 * block / 2})
	noise(b.pool, 1)
	a.Read(s.transfer(b, 0, []int32{3, 200, 4, 5, 6}, []int32{9, 1, 2, 100, 101}, ""))
	if err := a.done(s.ids); err != nil {
		s.Fatal(err)
	}
	for l, r := range map[int32]int32{3: 9, 200: 1, 4: 2, 5: 100, 6: 101} {
		if !bytes.Equal(a.block(l), b.block(r)) {
			s.Errorf("our block %d is not block %d of the peer", l, r)
		}
	}
	a.untouched(3, 4, 5, 6, 200)
	a.Read(s.transfer(b, 0, nil, nil, ""))
	if err := a.done(s.ids); err != nil {
		s.Errorf("a read of nothing: %v", err)
	}
	// Many at once, and the peer reads back meanwhile what is not written.
	for i := range int32(20) {
		a.Read(s.transfer(b, 0, seq(8*i, 8), seq(8*(19-i), 8), ""))
		b.Read(s.transfer(a, 0, []int32{200 + i}, []int32{255}, ""))
	}
	for range 20 {
		if d := await(a, every[agent.Done]); d.Err != nil {
			s.Error(d.Err)
		}
		if d := await(b, every[agent.Done]); d.Err != nil {
			s.Error(d.Err)
		}
	}
	for i := range int32(20) {
		if !bytes.Equal(a.pool[8*i*block:(8*i+8)*block], b.pool[8*(19-i)*block:(8*(19-i)+8)*block]) {
			s.Errorf("read %d brought other bytes", i)
		}
	}
}

// A read of memory that the peer has not registered is refused, and the connection serves on.
func readOfWhatIsNotThere(s *suite) {
	a, b := s.pair(Options{FrameBytes: block})
	noise(b.pool, 1)
	for name, d := range map[string]agent.Desc{
		"region": {Region: 2, Length: block},
		"end":    {Region: 1, Offset: otherSize - block + 1, Length: block},
		"far":    {Offset: 1 << 60, Length: block},
	} {
		t := s.transfer(b, 0, []int32{0, 1, 2}, []int32{0, 1, 2}, "")
		t.Remote = agent.List{{Length: block}, d, {Length: block}}
		a.Read(t)
		if err := a.done(t.ID); !errors.Is(err, agent.ErrRefused) {
			s.Errorf("%s: %v", name, err)
		}
		if a.block(1)[0] != poison {
			s.Errorf("%s: bytes came", name)
		}
		a.Read(s.transfer(b, 0, []int32{9}, []int32{9}, ""))
		if err := a.done(s.ids); err != nil {
			s.Errorf("%s, after it: %v", name, err)
		}
	}
}
