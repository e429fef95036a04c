package sim

import (
	"reflect"
	"strings"
	"testing"
)

// Every plan prints as a script that reads back as the same plan, and so runs the same.
func TestScriptIsThePlan(t *testing.T) {
	on := faults(t, "all")
	for seed := range uint64(300) {
		p := Generate(seed, on, Nodes{})
		got, err := Parse(p.String())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p)
		}
		if got.String() != p.String() {
			t.Fatalf("seed %d: read back as\n%s\nafter\n%s", seed, got, p)
		}
		for i := range p.Faults {
			if p.Faults[i].Request > 0 && p.Faults[i].On == "" && p.Faults[i].Kind != Cancel {
				t.Fatalf("seed %d: fault %d names a request that it does not need", seed, i)
			}
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("seed %d: read back as\n%+v\nafter\n%+v", seed, got, p)
		}
	}
}

func TestScriptMistakes(t *testing.T) {
	const cluster = "cluster prefill=1 decode=1 tpb=4 windows=0 layers=1 heads=1 lanes=1 latency=1ms timeout=1ms dead=1ms seqs=1 queue=1 pblocks=1 dblocks=1\n"
	const request = "request prompt=1 max=1 on=p0,d0\n"
	for _, c := range []struct{ script, want string }{
		{"hello", `"hello": want seed, cluster, request or fault`},
		{"seed", "want one number"},
		{"seed x", "invalid syntax"},
		{"fault", "want the fault's kind"},
		{"cluster prefill=x", "prefill"},
		{"cluster speed=1", `there is no "speed"`},
		{"cluster pipelined=maybe", "want yes or no"},
		{"cluster windows=1,x", "windows"},
		{"cluster latency=1", "latency"},
		{"cluster prefill=1", "must be above 0"},
		{"cluster prefill=65", "0 to 64 nodes"},
		{cluster + "cluster seqs=0", "max_num_seqs 0"},
		{cluster + "cluster ptp=3 heads=2", "tensor_parallel_size 3"},
		{cluster + request + "fault garble on=r1/land:1", "want a block that is read"},
		{cluster + "request max=1 on=d0", "prompt and max"},
		{cluster + "request prompt=1 max=1 on=d7", "no such node"},
		{cluster + request + "fault fire", "no such fault"},
		{cluster + request + "fault crash", "want a node"},
		{cluster + request + "fault drop node=p0 peer=p0", "want two nodes"},
		{cluster + request + "fault cancel at=1ms", "want a request"},
		{cluster + request + "fault cancel on=x/pass:1", "want a request as rN"},
		{cluster + request + "fault cancel on=r1/pass", "want rN/point:count"},
		{cluster + request + "fault cancel on=r1/pass:0", "its count"},
		{cluster + request + "fault cancel on=r2/pass:1", "no request r2"},
		{cluster + request + "fault lose on=r1/pass:1", "want a message to strike"},
	} {
		_, err := Parse(c.script)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.script, err, c.want)
		}
	}
}

func TestParseFaults(t *testing.T) {
	if f := faults(t, "all"); len(f) != len(Names) {
		t.Errorf("all is %v", f)
	}
	if f := faults(t, "none"); len(f) != 0 {
		t.Errorf("none is %v", f)
	}
	if _, err := ParseFaults("crash,fire"); err == nil || !strings.Contains(err.Error(), `"fire"`) {
		t.Errorf("a fault that does not exist: %v", err)
	}
}
