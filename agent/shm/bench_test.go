//go:build linux

package shm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"kvferry/agent"
	"kvferry/agent/memory"
	"kvferry/agent/shm"
	"kvferry/wire"
)

// poolBytes is what an operation of the benchmarks moves, in permuted blocks.
const poolBytes = 64 << 20

var blockSizes = []int{4 << 10, 16 << 10, 64 << 10, 256 << 10}

// BenchmarkWrite writes between two agents of this process, BenchmarkRead reads, and
// BenchmarkMemcpy copies the same blocks with nothing between: on one goroutine, which is what a
// machine with a core for each side has.
func BenchmarkWrite(b *testing.B) { bench(b, (*shm.Agent).Write) }

func BenchmarkRead(b *testing.B) { bench(b, (*shm.Agent).Read) }

func permuted(block int) agent.Transfer {
	t := agent.Transfer{Peer: wire.Life{2}, Epoch: 1}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(poolBytes / block) {
		t.LocalIdx = append(t.LocalIdx, int32(len(t.Local)))
		t.RemoteIdx = append(t.RemoteIdx, int32(i))
		t.Local = append(t.Local, agent.Desc{Offset: uint64(len(t.Local) * block), Length: uint64(block)})
	}
	t.Remote = t.Local
	return t
}

func pool(b testing.TB) []byte {
	b.Helper()
	m, err := memory.Map("bench", poolBytes)
	must(b, err)
	b.Cleanup(func() { must(b, m.Close()) })
	rand.NewChaCha8([32]byte{}).Read(m.Bytes())
	return m.Bytes()
}

// pair makes two agents that are connected, of which the second lets the first write.
func pair(b testing.TB) *shm.Agent {
	b.Helper()
	var as [2]*shm.Agent
	for i := range as {
		mem := pool(b)
		a, err := shm.New(shm.Options{Log: childOptions.Log})
		must(b, err)
		_, err = a.Register(mem)
		must(b, err)
		must(b, a.Start(hello(byte(i+1))))
		b.Cleanup(func() {
			must(b, a.Close(context.Background()))
			for range a.Events() {
			}
		})
		as[i] = a
	}
	as[0].Connect(as[1].Addr())
	await[agent.PeerUp](b, as[0])
	await[agent.PeerUp](b, as[1])
	as[1].Grant(1, wire.Life{1}, []agent.Desc{{Length: poolBytes}})
	return as[0]
}

func bench(b *testing.B, start func(*shm.Agent, agent.Transfer)) {
	for _, block := range blockSizes {
		b.Run(fmt.Sprintf("%dKiB", block>>10), func(b *testing.B) {
			a, t := pair(b), permuted(block)
			b.SetBytes(poolBytes)
			b.ReportAllocs()
			b.ResetTimer()
			for id := range uint64(b.N) {
				t.ID = id
				start(a, t)
				if d := await[agent.Done](b, a); d.Err != nil {
					b.Fatal(d.Err)
				}
			}
		})
	}
}

func BenchmarkMemcpy(b *testing.B) {
	for _, block := range blockSizes {
		b.Run(fmt.Sprintf("%dKiB", block>>10), func(b *testing.B) {
			to, from, t := pool(b), pool(b), permuted(block)
			b.SetBytes(poolBytes)
			b.ResetTimer()
			for range b.N {
				for i, at := range t.RemoteIdx {
					copy(to[int(at)*block:][:block], from[i*block:])
				}
			}
		})
	}
}

// No block costs an allocation, of a transfer of many.
func TestNoAllocationABlock(t *testing.T) {
	a, tr := pair(t), permuted(4<<10)
	for name, start := range map[string]func(agent.Transfer){"write": a.Write, "read": a.Read} {
		once := func() {
			start(tr)
			if d := await[agent.Done](t, a); d.Err != nil {
				t.Fatal(d.Err)
			}
		}
		once()
		if n := testing.AllocsPerRun(5, once) / (poolBytes / (4 << 10)); n > 0.01 {
			t.Errorf("%s: %.3f allocations a block", name, n)
		}
	}
}
