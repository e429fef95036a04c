package tcp_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// buffer is what the benchmarks give the connections' buffers.
var buffer = flag.Int("socket-buffer", 0, "of the benchmarks, in bytes; 0 is the agent's default, -1 the kernel's")

// pool is what one operation of a benchmark moves.
const pool = 64 << 20

// BenchmarkWrite moves 64 MiB an operation, in permuted blocks, between mapped pools of two
// agents of this process: MB/s, and GB of payload a second of processor time of both sides
// together. BenchmarkRead reads the same.
func BenchmarkWrite(b *testing.B) { bench(b, (*tcp.Agent).Write) }

func BenchmarkRead(b *testing.B) { bench(b, (*tcp.Agent).Read) }

func bench(b *testing.B, start func(*tcp.Agent, agent.Transfer)) {
	for _, lanes := range []int{1, 2} {
		for _, block := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("connections=%d/%dKiB", lanes, block>>10), func(b *testing.B) {
				as := benchPair(b, tcp.Options{Log: quietLog, Bulk: lanes, SocketBuffer: *buffer})
				parts := permuted(block, 2*lanes)
				b.SetBytes(pool)
				b.ReportAllocs()
				round(b, as[0], start, parts) // what is reused is there
				b.ResetTimer()
				before := cpu(b)
				for range b.N {
					round(b, as[0], start, parts)
				}
				b.ReportMetric(float64(b.N)*pool/1e9/(cpu(b)-before), "GB/cpu-s")
			})
		}
	}
}

// BenchmarkNotifyUnderBulk measures a small message's way there while blocks saturate the
// connections for them: the 99th percentile, which heartbeats depend on.
func BenchmarkNotifyUnderBulk(b *testing.B) {
	as := benchPair(b, tcp.Options{Log: quietLog, Bulk: 2, SocketBuffer: *buffer})
	parts := permuted(64<<10, 4)
	var done atomic.Bool
	flowing := make(chan struct{})
	go func() {
		defer close(flowing)
		for !done.Load() {
			round(b, as[0], (*tcp.Agent).Write, parts)
		}
	}()
	var took []time.Duration
	for range b.N {
		begin := time.Now()
		as[0].Notify(wire.Life{2}, []byte("a heartbeat"))
		await[agent.Notice](b, as[1])
		took = append(took, time.Since(begin))
	}
	done.Store(true)
	<-flowing
	b.ReportMetric(float64(percentile(took, 50).Microseconds()), "p50-us")
	b.ReportMetric(float64(percentile(took, 99).Microseconds()), "p99-us")
}

// benchPair is two agents with mapped pools, connected, the second's all granted to the first.
func benchPair(b testing.TB, o tcp.Options) (as [2]*tcp.Agent) {
	for i := range as {
		m, err := memory.Map("bench", pool)
		must(b, err)
		b.Cleanup(func() { must(b, m.Close()) })
		rand.NewChaCha8([32]byte{}).Read(m.Bytes())
		as[i] = tcp.New(o)
		_, err = as[i].Register(m.Bytes())
		must(b, err)
		must(b, as[i].Start(hello(byte(i+1))))
		b.Cleanup(func() { must(b, as[i].Close(context.Background())) })
	}
	as[0].Connect(as[1].Addr())
	await[agent.PeerUp](b, as[0])
	await[agent.PeerUp](b, as[1])
	for epoch := range uint64(16) {
		as[1].Grant(epoch, wire.Life{1}, []agent.Desc{{Length: pool}})
	}
	return as
}

// permuted cuts the pool into blocks, and these, in another order on either side, into transfers
// of as many epochs.
func permuted(block, transfers int) []agent.Transfer {
	var all agent.List
	for i := range pool / block {
		all = append(all, agent.Desc{Offset: uint64(i * block), Length: uint64(block)})
	}
	r := rand.New(rand.NewPCG(1, 2))
	from, to := r.Perm(len(all)), r.Perm(len(all))
	parts := make([]agent.Transfer, transfers)
	for i := range all {
		t := &parts[i*transfers/len(all)]
		t.LocalIdx, t.RemoteIdx = append(t.LocalIdx, int32(from[i])), append(t.RemoteIdx, int32(to[i]))
	}
	for i := range parts {
		t := &parts[i]
		t.ID, t.Epoch, t.Peer, t.Local, t.Remote = uint64(i), uint64(i), wire.Life{2}, all, all
	}
	return parts
}

// round moves the pool once.
func round(b testing.TB, a *tcp.Agent, start func(*tcp.Agent, agent.Transfer), parts []agent.Transfer) {
	for _, t := range parts {
		start(a, t)
	}
	for range parts {
		if d := await[agent.Done](b, a); d.Err != nil {
			b.Error(d.Err)
			return
		}
	}
}

// cpu is the processor time of this process in seconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func percentile(all []time.Duration, p int) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*p/100]
}
