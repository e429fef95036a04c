package lease

import (
	"fmt"
	"math/rand/v2"

	"kvferry/lease"
	"kvferry/wire"
)

// peer is one reader, and what it holds.
type peer struct {
	life     wire.Life
	renewals *lease.Renewals
	leases   []wire.Lease
	silent   bool
}

// bed is one granter and its readers.
type bed struct {
	o       Options
	rng     *rand.Rand
	table   *lease.Table
	granter wire.Life
	peers   []*peer
	named   *named
	now     int64
	nonce   uint64
	buf     []byte
}

func newBed(o Options) *bed {
	b := &bed{
		o: o, rng: rand.New(rand.NewPCG(o.Seed, 0)), table: lease.NewTable(int64(o.Duration)),
		granter: wire.Life{255}, named: newNamed(o),
	}
	for i := range o.Peers {
		p := &peer{renewals: lease.NewRenewals()}
		p.life[0], p.life[1] = byte(i), byte(i>>8)
		p.renewals.Up(0, b.granter, int64(o.Duration))
		b.peers = append(b.peers, p)
	}
	for i := range o.Leases {
		p := b.peers[i%o.Peers]
		l := b.draw()
		p.leases = append(p.leases, l)
		b.join(p, l)
		b.named.join(l)
	}
	return b
}

// draw makes a request as long as those of clients are.
func (b *bed) draw() wire.Lease {
	b.nonce++
	hi, lo := b.rng.Uint64(), b.rng.Uint64()
	id := fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&(1<<48-1))
	return wire.Lease{Request: id, Nonce: b.nonce, Attempt: 1}
}

// join is a request that came to the granter, was computed, and was queued by a reader.
func (b *bed) join(p *peer, l wire.Lease) {
	b.table.Open(l.Request)
	b.table.SetNonce(l.Request, l.Nonce)
	b.table.Grant(b.now, l.Request)
	p.renewals.Join(b.now, b.granter, l)
}

// leave is a read that was proved.
func (b *bed) leave(p *peer, l wire.Lease) error {
	if err := b.table.Complete(p.life, &wire.Complete{Lease: l}); err != nil {
		return fmt.Errorf("completion of %s: %w", l.Request, err)
	}
	b.table.End(l.Request, nil)
	p.renewals.Leave(b.now, b.granter, l)
	return nil
}

// beat sends what a peer has to say, as bytes, and brings it the answer.
func (b *bed) beat(p *peer, m *meter) error {
	for _, due := range p.renewals.Due(b.now) {
		b.buf = due.Msg.Append(b.buf[:0])
		m.beats++
		m.bytes += int64(len(b.buf))
		heard, err := wire.DecodeMessage(b.buf)
		if err != nil {
			return err
		}
		ack := b.table.Renew(b.now, p.life, heard.(*wire.Heartbeat))
		if ack == nil {
			continue
		}
		b.buf = ack.Append(b.buf[:0])
		m.answers += int64(len(b.buf))
		if heard, err = wire.DecodeMessage(b.buf); err != nil {
			return err
		}
		p.renewals.Acked(b.now, b.granter, heard.(*wire.HeartbeatAck))
	}
	return nil
}

// beats is one look at all peers that live.
func (b *bed) beats(m *meter) error {
	for _, p := range b.peers {
		if p.silent {
			continue
		}
		if err := b.beat(p, m); err != nil {
			return err
		}
	}
	return nil
}
