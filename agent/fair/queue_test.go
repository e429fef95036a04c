package fair

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type job struct {
	flow, n, frames int
	dead            bool
}

func ended(j *job) bool { return j.dead }

// Each flow's jobs come in order and whole, and no flow waits for more than one frame of
// every other flow.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int, *job]
		left := map[int][]*job{} // by flow, in order
		waited := map[int]int{}
		served := func() {
			for f := range left {
				if left[f] = slices.DeleteFunc(left[f], ended); len(left[f]) == 0 {
					delete(left, f)
				}
			}
			j, ok := q.Next(ended)
			if !ok {
				if len(left) > 0 {
					t.Fatalf("nothing to serve, and %v waits", left)
				}
				return
			}
			if len(left[j.flow]) == 0 || left[j.flow][0] != j {
				t.Fatalf("job %d of flow %d is out of order", j.n, j.flow)
			}
			for f := range left {
				waited[f]++
			}
			if waited[j.flow] > 8 {
				t.Fatalf("flow %d waited %d turns", j.flow, waited[j.flow])
			}
			waited[j.flow] = 0
			j.frames--
			q.Served(j.frames == 0)
			if j.frames == 0 {
				left[j.flow] = left[j.flow][1:]
				if len(left[j.flow]) == 0 {
					delete(left, j.flow)
				}
			}
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				j := &job{
					flow: rapid.IntRange(0, 7).Draw(t, "flow"), n: n,
					frames: rapid.IntRange(1, 5).Draw(t, "frames"),
				}
				n++
				if len(left[j.flow]) == 0 {
					waited[j.flow] = 0
				}
				left[j.flow] = append(left[j.flow], j)
				q.Add(j.flow, j)
			},
			"kill": func(t *rapid.T) {
				f := rapid.IntRange(0, 7).Draw(t, "flow")
				if len(left[f]) > 0 {
					rapid.SampledFrom(left[f]).Draw(t, "job").dead = true
				}
			},
			"serve": func(t *rapid.T) { served() },
		})
		for range 5*n + 1 {
			served()
		}
		if len(left) > 0 || len(q.ring) > 0 || len(q.flows) > 0 {
			t.Fatalf("%v is left, %d flows in the ring", left, len(q.ring))
		}
	})
}

func ExampleQueue() {
	var q Queue[string, string]
	q.Add("long", "a")
	q.Add("short", "b")
	none := func(string) bool { return false }
	for range 3 {
		j, _ := q.Next(none)
		fmt.Println(j)
		q.Served(j == "b")
	}
	// Output:
	// a
	// b
	// a
}
