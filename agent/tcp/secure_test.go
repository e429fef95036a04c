package tcp_test

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/agenttest"
	"kvferry/agent/auth"
	"kvferry/agent/certs"
	"kvferry/agent/certs/certstest"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

var secret = auth.New("the deployment's token")

// securedBy makes agents of one deployment, with its token and certificates.
func securedBy(store *certs.Store) agenttest.Make {
	return func(t testing.TB, o agenttest.Options) agent.Agent {
		opt := tcp.Options{
			Listen: o.Addr, Log: quietLog, RevokeGrace: o.RevokeGrace, FrameBytes: o.FrameBytes,
			Secret: secret, TLS: store, Bulk: 2, Checksum: true,
		}
		if o.Gate != nil {
			opt.Conn = o.Gate.Bulk
		}
		return tcp.New(opt)
	}
}

// Whatever an agent does it does inside TLS too.
func TestConformanceUnderTLS(t *testing.T) {
	store, err := certs.Open(certstest.New(t).Issue(t, t.TempDir()), quietLog)
	must(t, err)
	agenttest.RunOnHeap(t, securedBy(store), "short write is not held up")
}

// meet lets an agent with one set of options dial one with another, and gives both sides' errors;
// nil is that they are up.
func meet(t *testing.T, dialler, listener tcp.Options) (logged string, dialled error) {
	t.Helper()
	var log logs
	listener.Log = slog.New(slog.NewTextHandler(&log, nil))
	a, _ := running(t, dialler)
	b, _ := runningAs(t, listener, hello(2))
	a.Connect(b.Addr())
	for {
		switch e := (<-a.Events()).(type) {
		case agent.PeerUp:
			await[agent.PeerUp](t, b)
			return "", nil
		case agent.ConnectFailed:
			log.await(t, "handshake failed")
			select {
			case e := <-b.Events():
				t.Errorf("the other side has %T %v", e, e)
			default:
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			return log.b.String(), e.Err
		}
	}
}

// Two agents that have not the same token do not meet, and both are told which setting it is.
func TestTokens(t *testing.T) {
	for name, c := range map[string]struct {
		dialler, listener string
		told, logged      string
	}{
		"the same":            {"t", "t", "", ""},
		"none":                {"", "", "", ""},
		"other":               {"t", "u", "the token is not this deployment's", "does not prove this deployment's token"},
		"none at the dialler": {"", "u", "wants the deployment's token", "the peer has none"},
		"none at the other":   {"t", "", "has no token and was offered one", "the peer has a token and this engine has none"},
	} {
		t.Run(name, func(t *testing.T) {
			logged, err := meet(t, tcp.Options{Secret: auth.New(c.dialler)}, tcp.Options{Secret: auth.New(c.listener)})
			if c.told == "" {
				must(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.told) || !strings.Contains(logged, c.logged) {
				t.Errorf("%v, and the log says %s", err, logged)
			}
		})
	}
}

// Certificates of another authority, or none, or such as are not valid now, connect nobody.
func TestCertificates(t *testing.T) {
	ours, others := certstest.New(t), certstest.New(t)
	open := func(f certs.Files) *certs.Store {
		s, err := certs.Open(f, quietLog)
		must(t, err)
		return s
	}
	good := open(ours.Issue(t, t.TempDir()))
	foreign := open(others.Issue(t, t.TempDir()))
	old := open(ours.IssueAt(t, t.TempDir(), time.Now().Add(-48*time.Hour)))
	early := open(ours.IssueAt(t, t.TempDir(), time.Now().Add(48*time.Hour)))
	// Signed by another authority, and it trusts ours.
	half := others.Issue(t, t.TempDir())
	half.CA = ours.Issue(t, t.TempDir()).CA
	for name, c := range map[string]struct {
		dialler, listener *certs.Store
		ok                bool
	}{
		"one authority":             {good, good, true},
		"another authority":         {foreign, good, false},
		"another of the listener":   {good, foreign, false},
		"signed by another":         {open(half), good, false},
		"the listener's by another": {good, open(half), false},
		"expired":                   {old, good, false},
		"expired at the listener":   {good, old, false},
		"not valid yet":             {early, good, false},
		"no TLS to TLS":             {nil, good, false},
		"TLS to no TLS":             {good, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := tcp.Options{Secret: secret, Handshake: 2 * time.Second}
			dialler, listener := o, o
			dialler.TLS, listener.TLS = c.dialler, c.listener
			_, err := meet(t, dialler, listener)
			if (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}

// New certificates count for the next connection; what is up stays up.
func TestCertificatesAreRenewed(t *testing.T) {
	first, second := certstest.New(t), certstest.New(t)
	da, db := t.TempDir(), t.TempDir()
	open := func(dir string) *certs.Store {
		s, err := certs.Open(first.Issue(t, dir), quietLog)
		must(t, err)
		return s
	}
	a, _ := running(t, tcp.Options{TLS: open(da)})
	b, _ := runningAs(t, tcp.Options{TLS: open(db), Log: quietLog}, hello(2))
	a.Connect(b.Addr())
	await[agent.PeerUp](t, a)
	await[agent.PeerUp](t, b)
	second.Issue(t, da)
	a.Notify(wire.Life{2}, []byte("still up"))
	if n := await[agent.Notice](t, b); string(n.Payload) != "still up" {
		t.Errorf("%q", n.Payload)
	}
	a.Drop(wire.Life{2}, nil)
	await[agent.PeerLost](t, a)
	await[agent.PeerLost](t, b)
	a.Connect(b.Addr())
	await[agent.ConnectFailed](t, a)
	second.Issue(t, db)
	a.Connect(b.Addr())
	await[agent.PeerUp](t, a)
}

// A bulk connection must be of the life that claimed it, whoever knows the nonce.
func TestBulkOfAnotherLife(t *testing.T) {
	a, _ := running(t, tcp.Options{Secret: secret, Handshake: 300 * time.Millisecond})
	c := provedBy(t, a, secret, 2)
	c.say(wire.Pack(wire.FrameHello, hello(2)))
	c.hear(wire.FrameHello)
	nonce := wire.Nonce{7}
	c.say(wire.Pack(wire.FrameClaim, wire.Claim{Nonce: nonce, Bulk: 1}))
	c.hear(wire.FrameWelcome)
	b := provedBy(t, a, secret, 3)
	b.say(wire.Pack(wire.FrameJoin, wire.Join{Nonce: nonce}))
	b.closed()
	c.closed() // for want of its bulk connection
	select {
	case e := <-a.Events():
		t.Errorf("%T %v", e, e)
	default:
	}
}

// Whoever has not the token hears the magic, a challenge and a refusal of few words: neither who
// the agent is, nor what it runs.
func TestStrangersLearnNothing(t *testing.T) {
	h := hello(1)
	h.Identity.Model, h.Role = "the model's hash", "prefill"
	a, _ := runningAs(t, tcp.Options{Secret: secret, Log: quietLog}, h)
	for name, say := range map[string][][]byte{
		"no token":     {wire.Pack(wire.FrameChallenge, wire.Challenge{})},
		"a false one":  {wire.Pack(wire.FrameChallenge, wire.Challenge{Token: true}), wire.Pack(wire.FrameProof, wire.Proof{Life: wire.Life{2}})},
		"a hello":      {wire.Pack(wire.FrameHello, hello(2))},
		"a join":       {wire.Pack(wire.FrameJoin, wire.Join{})},
		"another word": {wire.Pack(wire.FrameChallenge, wire.Challenge{Token: true}), wire.Pack(wire.FrameHello, hello(2))},
	} {
		s := dial(t, a)
		s.say([]byte(wire.Magic))
		s.say(say...)
		heard, err := io.ReadAll(s)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
		if len(heard) > 256 || strings.Contains(string(heard), "model") || strings.Contains(string(heard), "prefill") ||
			strings.Contains(string(heard), string(h.Life[:])) {
			t.Errorf("%s: %q", name, heard)
		}
	}
}

// A stranger with the token, which is a peer that misbehaves, reaches only what it was granted,
// and the agent serves the next one on.
//
// req: PIPE-32
func TestMaliciousPeer(t *testing.T) {
	a, mem := running(t, tcp.Options{Secret: secret, DeadAfter: time.Second, Ping: 100 * time.Millisecond})
	write := func(epoch uint64, r ...wire.Range) []byte {
		return append(wire.Pack(wire.FrameWrite, wire.Write{Transfer: 1, Last: true, Epoch: epoch, Ranges: r}), make([]byte, wire.Sum(r))...)
	}
	read := func(r ...wire.Range) []byte {
		return wire.Pack(wire.FrameRead, wire.ReadRequest{Transfer: 1, Last: true, Ranges: r})
	}
	for i := range mem {
		mem[i] = 0xee
	}
	a.Grant(1, wire.Life{2}, []agent.Desc{{Length: 100}})
	a.Grant(2, wire.Life{9}, []agent.Desc{{Length: size}}) // another's
	a.Grant(3, wire.Life{2}, []agent.Desc{{Length: 100}})
	a.Revoke(3)
	for name, c := range map[string]struct {
		bulk, control []byte
		refused       bool // the transfer, and the connection goes on
	}{
		"outside the grant":     {bulk: write(1, wire.Range{Offset: 96, Length: 8}), refused: true},
		"past the region":       {bulk: write(1, wire.Range{Offset: size - 4, Length: 8}), refused: true},
		"an offset that wraps":  {bulk: write(1, wire.Range{Offset: 1<<64 - 4, Length: 8}), refused: true},
		"another region":        {bulk: write(1, wire.Range{Region: 1, Length: 8}), refused: true},
		"another's epoch":       {bulk: write(2, wire.Range{Length: 8}), refused: true},
		"a revoked epoch":       {bulk: write(3, wire.Range{Length: 8}), refused: true},
		"no epoch":              {bulk: write(99, wire.Range{Length: 8}), refused: true},
		"a read past the end":   {control: read(wire.Range{Offset: size - 4, Length: 8}), refused: true},
		"a read of no region":   {control: read(wire.Range{Region: 1 << 31, Length: 8}), refused: true},
		"a read that wraps":     {control: read(wire.Range{Offset: 1<<64 - 4, Length: 8}), refused: true},
		"a truncated write":     {bulk: write(1, wire.Range{Length: 8})[:30]},
		"an oversized write":    {bulk: []byte{255, 255, 255, 255, byte(wire.FrameWrite)}},
		"an oversized control":  {control: []byte{255, 255, 255, 127, byte(wire.FrameNotice)}},
		"ranges that are short": {bulk: []byte{25, 0, 0, 0, byte(wire.FrameWrite), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}},
		"one byte and no more":  {control: []byte{1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := poseWith(t, a, secret, 2)
			await[agent.PeerUp](t, a)
			p.bulk.say(c.bulk)
			p.control.say(c.control)
			if c.refused {
				p.refused(t, c.bulk != nil)
				a.Drop(wire.Life{2}, nil)
			} else {
				p.bulk.Close() // the rest of a frame never comes
			}
			if e := await[agent.PeerLost](t, a); !errors.Is(e.Err, agent.ErrPeerLost) {
				t.Error(e.Err)
			}
			for i, v := range mem {
				if v != 0xee {
					t.Fatalf("byte %d is written", i)
				}
			}
		})
	}
	// It serves the next one.
	poseWith(t, a, secret, 4)
	await[agent.PeerUp](t, a)
}

// refused waits for the refusal of transfer 1.
func (s stranded) refused(t *testing.T, write bool) {
	t.Helper()
	if write {
		k, err := wire.DecodeAck(s.control.hear(wire.FrameAck))
		if err != nil || !k.Refused {
			t.Errorf("%+v, %v", k, err)
		}
		return
	}
	d, err := wire.DecodeReadData(s.bulk.hear(wire.FrameData))
	if err != nil || !d.Refused || d.Bytes != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Connections that say a byte now and then hold up nobody, as many as they are.
func TestSlowLoris(t *testing.T) {
	a, _ := running(t, tcp.Options{Secret: secret, Handshake: time.Hour})
	for range 300 {
		s := dial(t, a)
		_, _ = s.Write([]byte{wire.Magic[0]}) // it may have had to make room already
	}
	begin := time.Now()
	poseWith(t, a, secret, 2)
	await[agent.PeerUp](t, a)
	if d := time.Since(begin); d > patience/2 {
		t.Errorf("after %v", d)
	}
}

// Whoever proved to be one life cannot go on as another.
func TestHelloOfAnotherLife(t *testing.T) {
	a, _ := running(t, tcp.Options{Secret: secret})
	s := provedBy(t, a, secret, 2)
	s.say(wire.Pack(wire.FrameHello, hello(3)))
	r, err := wire.DecodeRefuse(s.hear(wire.FrameRefuse))
	if err != nil || !strings.Contains(r.Reason, "another life") {
		t.Errorf("%+v, %v", r, err)
	}
	s.closed()
}
