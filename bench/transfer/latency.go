package transfer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"kvferry/agent"
)

// pingEvery is the pause between small messages.
const pingEvery = time.Millisecond

// latency times small messages to the first peer and back: of an idle agent, and while a write
// to each peer is always in flight.
func (b *bed) latency(o Options, rnd *rand.Rand) (idle, busy []float64, err error) {
	block := o.Blocks[len(o.Blocks)/2]
	if idle, err = b.pings(o.Pings, nil); err != nil {
		return nil, nil, err
	}
	ts := b.move(o, opWrite, block, rnd)
	busy, err = b.pings(o.Pings, ts)
	return idle, busy, err
}

// pings sends n small messages, one after the other, and gives their times to the peer and back in
// seconds. ts, if any, are written again and again meanwhile.
func (b *bed) pings(n int, ts []agent.Transfer) ([]float64, error) {
	b.start(opWrite, ts)
	flying := len(ts)
	var times []float64
	began := make([]time.Time, 0, n)
	ping := func() {
		began = append(began, time.Now())
		b.here.Notify(b.peers[0].life, binary.LittleEndian.AppendUint64(nil, uint64(len(began)-1)))
	}
	every := time.NewTicker(pingEvery)
	defer every.Stop()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for len(times) < n || flying > 0 {
		select {
		case <-every.C:
			if len(began) == len(times) && len(began) < n {
				ping()
			}
		case e := <-b.here.Events():
			switch e := e.(type) {
			case agent.Notice:
				times = append(times, time.Since(began[binary.LittleEndian.Uint64(e.Payload)]).Seconds())
			case agent.Done:
				if e.Err != nil {
					return nil, e.Err
				}
				if flying--; len(times) < n {
					for i := range ts {
						if ts[i].ID == e.ID {
							b.ids++
							ts[i].ID = b.ids
							b.start(opWrite, ts[i:i+1])
							flying++
						}
					}
				}
			case agent.PeerLost:
				return nil, e.Err
			}
		case <-timeout.C:
			return nil, fmt.Errorf("%s: small messages do not come back", b.name)
		}
	}
	return times, nil
}
