package lease

import (
	"bytes"

	"kvferry/lease"
	"kvferry/wire"
)

// named is renewal request by request: a heartbeat is the text HB: and the IDs of all requests
// with commas between, and each is looked up and given its own instant. Who expires, and when
// that is noticed, is not part of it.
type named struct {
	extension int64
	until     map[string]*int64
	buf       []byte
}

func newNamed(o Options) *named {
	return &named{extension: lease.Extension(int64(o.Duration)), until: map[string]*int64{}}
}

func (n *named) join(l wire.Lease) { n.until[l.Request] = new(int64) }

func (n *named) leave(l wire.Lease) { delete(n.until, l.Request) }

// beats is one round: each peer that lives renews each of its leases.
func (n *named) beats(b *bed, m *meter) {
	for _, p := range b.peers {
		if p.silent {
			continue
		}
		n.buf = append(n.buf[:0], "HB:"...)
		for i, l := range p.leases {
			if i > 0 {
				n.buf = append(n.buf, ',')
			}
			n.buf = append(n.buf, l.Request...)
		}
		m.beats++
		m.bytes += int64(len(n.buf))
		n.hear(b.now, n.buf)
	}
}

func (n *named) hear(now int64, text []byte) {
	for id := range bytes.SplitSeq(text[len("HB:"):], []byte(",")) {
		if until := n.until[string(id)]; until != nil {
			*until = max(*until, now+n.extension)
		}
	}
}
