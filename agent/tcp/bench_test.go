package tcp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/agent/tcp"
	"kvferry/wire"
)

// BenchmarkWrite moves 64 MiB an operation, in permuted blocks, between mapped pools of two
// agents of this process: MB/s, and GB of payload a second of processor time of both sides
// together. BenchmarkRead reads the same.
func BenchmarkWrite(b *testing.B) { bench(b, (*tcp.Agent).Write) }

func BenchmarkRead(b *testing.B) { bench(b, (*tcp.Agent).Read) }

func bench(b *testing.B, start func(*tcp.Agent, agent.Transfer)) {
	const pool = 64 << 20
	for _, block := range []int{16 << 10, 64 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", block>>10), func(b *testing.B) {
			var as [2]*tcp.Agent
			for i := range as {
				m, err := memory.Map("bench", pool)
				must(b, err)
				b.Cleanup(func() { must(b, m.Close()) })
				rand.NewChaCha8([32]byte{}).Read(m.Bytes())
				as[i] = tcp.New(tcp.Options{Log: quietLog})
				_, err = as[i].Register(m.Bytes())
				must(b, err)
				must(b, as[i].Start(hello(byte(i+1))))
				b.Cleanup(func() { must(b, as[i].Close(context.Background())) })
			}
			as[0].Connect(as[1].Addr())
			await[agent.PeerUp](b, as[0])
			await[agent.PeerUp](b, as[1])
			as[1].Grant(1, wire.Life{1}, []agent.Desc{{Length: pool}})
			t := agent.Transfer{Peer: wire.Life{2}, Epoch: 1}
			for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(pool / block) {
				t.LocalIdx = append(t.LocalIdx, int32(len(t.Local)))
				t.RemoteIdx = append(t.RemoteIdx, int32(i))
				t.Local = append(t.Local, agent.Desc{Offset: uint64(len(t.Local) * block), Length: uint64(block)})
			}
			t.Remote = t.Local
			b.SetBytes(pool)
			b.ResetTimer()
			before := cpu(b)
			for id := range uint64(b.N) {
				t.ID = id
				start(as[0], t)
				if d := await[agent.Done](b, as[0]); d.Err != nil {
					b.Fatal(d.Err)
				}
			}
			b.ReportMetric(float64(b.N)*pool/1e9/(cpu(b)-before), "GB/cpu-s")
		})
	}
}

// cpu is the processor time of this process in seconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
