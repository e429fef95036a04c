package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A script is a plan as text: a line a part, a word and then key=value pairs. What is left
// out is zero; # begins a comment.
//
//	seed 7
//	cluster prefill=1 decode=1 tpb=4 windows=0,8 layers=1 ...
//	request at=2ms skew=1ms prompt=13 max=4 on=p0,d0
//	fault cancel on=r1/land:2 after=1ms leg=decode
//	fault crash node=p0 on=r1/copy:1 for=30ms

// field ties a key to a part of a plan.
type field struct {
	key  string
	show func() string // empty: not shown
	read func(string) error
}

func number(key string, v *int) field {
	return field{key, func() string {
		if *v == 0 {
			return ""
		}
		return strconv.Itoa(*v)
	}, func(s string) (err error) { *v, err = strconv.Atoi(s); return err }}
}

func duration(key string, v *int64) field {
	return field{key, func() string {
		if *v == 0 {
			return ""
		}
		return time.Duration(*v).String()
	}, func(s string) error {
		d, err := time.ParseDuration(s)
		*v = int64(d)
		return err
	}}
}

func word[S ~string](key string, v *S) field {
	return field{key, func() string { return string(*v) }, func(s string) error { *v = S(s); return nil }}
}

func yesNo(key string, v *bool) field {
	return field{key, func() string {
		if *v {
			return "yes"
		}
		return ""
	}, func(s string) error {
		if s != "yes" && s != "no" {
			return fmt.Errorf("%q: want yes or no", s)
		}
		*v = s == "yes"
		return nil
	}}
}

func numbers(key string, v *[]int) field {
	return field{key, func() string {
		var parts []string
		for _, n := range *v {
			parts = append(parts, strconv.Itoa(n))
		}
		return strings.Join(parts, ",")
	}, func(s string) error {
		*v = nil
		for _, part := range strings.Split(s, ",") {
			n, err := strconv.Atoi(part)
			if err != nil {
				return err
			}
			*v = append(*v, n)
		}
		return nil
	}}
}

func (c *Cluster) fields() []field {
	return []field{
		number("prefill", &c.Prefill), number("decode", &c.Decode), number("whole", &c.Whole),
		number("tpb", &c.BlockTokens), numbers("windows", &c.Windows), number("layers", &c.Layers),
		number("heads", &c.Heads), number("ptp", &c.PrefillTensor), number("ppp", &c.PrefillStages),
		number("dtp", &c.DecodeTensor), number("dpp", &c.DecodeStages),
		yesNo("pgrow", &c.PrefillGrow), yesNo("dgrow", &c.DecodeGrow),
		yesNo("preuse", &c.PrefillReuse), yesNo("dreuse", &c.DecodeReuse), yesNo("checksum", &c.Checksum),
		number("pblocks", &c.PrefillBlocks), number("dblocks", &c.DecodeBlocks),
		number("seqs", &c.Seqs), number("queue", &c.Queue), number("chunk", &c.Chunk),
		yesNo("pipelined", &c.Pipelined), number("parts", &c.Parts), yesNo("fencing", &c.Fencing),
		duration("timeout", &c.Timeout), duration("dead", &c.DeadAfter),
		duration("latency", &c.Latency), duration("jitter", &c.Jitter),
		number("lanes", &c.Lanes), duration("block", &c.BlockTime),
		duration("pass", &c.Pass), duration("token", &c.PassToken),
		duration("lease", &c.Lease), number("slots", &c.Slots), duration("ttl", &c.TurnTTL),
		yesNo("unverified", &c.Unverified), yesNo("recompute", &c.Recompute), number("threshold", &c.Threshold),
		yesNo("readonly", &c.ReadOnly), number("drift", &c.Drift),
	}
}

func (r *Request) fields() []field {
	on := field{"on", func() string {
		if r.Prefill == "" {
			return r.Decode
		}
		return r.Prefill + "," + r.Decode
	}, func(s string) error {
		first, second, two := strings.Cut(s, ",")
		if two {
			r.Prefill, r.Decode = first, second
		} else {
			r.Decode = first
		}
		return nil
	}}
	after := field{"after", func() string {
		if r.After == 0 {
			return ""
		}
		return "r" + strconv.Itoa(r.After)
	}, func(s string) (err error) { r.After, err = requestNumber(s); return err }}
	return []field{
		duration("at", &r.At), duration("skew", &r.Skew), number("prompt", &r.Prompt), number("max", &r.Max),
		number("like", &r.Like), number("alike", &r.Alike),
		yesNo("ignore-eos", &r.IgnoreEOS), on, yesNo("hold", &r.Hold), word("twin", &r.Twin),
		yesNo("newer", &r.Newer), word("second", &r.Second), after,
	}
}

func (f *Fault) fields() []field {
	on := field{"on", f.showOn, f.readOn}
	request := field{"request", func() string {
		if f.Request == 0 || f.On != "" {
			return ""
		}
		return "r" + strconv.Itoa(f.Request)
	}, func(s string) (err error) { f.Request, err = requestNumber(s); return err }}
	victim := field{"victim", func() string {
		if f.Victim == 0 {
			return ""
		}
		return "r" + strconv.Itoa(f.Victim)
	}, func(s string) (err error) { f.Victim, err = requestNumber(s); return err }}
	return []field{
		word("node", &f.Node), word("peer", &f.Peer), duration("at", &f.At), request, on,
		duration("after", &f.After), duration("for", &f.For), word("leg", &f.Leg), victim, yesNo("host", &f.Host),
		number("by", &f.By), duration("late", &f.Lateness), word("field", &f.Field),
	}
}

func (f *Fault) showOn() string {
	if f.On == "" {
		return ""
	}
	return fmt.Sprintf("r%d/%s:%d", f.Request, f.On, f.Nth)
}

func (f *Fault) readOn(s string) (err error) {
	id, rest, ok := strings.Cut(s, "/")
	point, nth, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 {
		return fmt.Errorf("%q: want rN/point:count", s)
	}
	f.On = Point(point)
	if f.Request, err = requestNumber(id); err != nil {
		return err
	}
	f.Nth, err = strconv.Atoi(nth)
	return err
}

func requestNumber(s string) (int, error) {
	digits, ok := strings.CutPrefix(s, "r")
	if !ok {
		return 0, fmt.Errorf("%q: want a request as rN", s)
	}
	return strconv.Atoi(digits)
}

func show(words string, fields []field) string {
	var b strings.Builder
	b.WriteString(words)
	for _, f := range fields {
		if s := f.show(); s != "" {
			fmt.Fprintf(&b, " %s=%s", f.key, s)
		}
	}
	return b.String() + "\n"
}

// String prints the plan as a script.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", p.Seed)
	b.WriteString(show("cluster", p.Cluster.fields()))
	for i := range p.Requests {
		b.WriteString(show("request", p.Requests[i].fields()))
	}
	for i := range p.Faults {
		b.WriteString(show("fault "+string(p.Faults[i].Kind), p.Faults[i].fields()))
	}
	return b.String()
}

// Parse reads a script. The plan it gives can be run.
func Parse(script string) (Plan, error) {
	var p Plan
	for i, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := p.readLine(words); err != nil {
			return p, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return p, p.Validate()
}

func (p *Plan) readLine(words []string) error {
	switch words[0] {
	case "seed":
		if len(words) != 2 {
			return fmt.Errorf("want one number")
		}
		n, err := strconv.ParseUint(words[1], 10, 64)
		p.Seed = n
		return err
	case "cluster":
		return read(words[1:], p.Cluster.fields())
	case "request":
		p.Requests = append(p.Requests, Request{})
		return read(words[1:], p.Requests[len(p.Requests)-1].fields())
	case "fault":
		if len(words) < 2 {
			return fmt.Errorf("want the fault's kind")
		}
		p.Faults = append(p.Faults, Fault{Kind: Kind(words[1])})
		return read(words[2:], p.Faults[len(p.Faults)-1].fields())
	}
	return fmt.Errorf("%q: want seed, cluster, request or fault", words[0])
}

func read(pairs []string, fields []field) error {
next:
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		for _, f := range fields {
			if f.key == key {
				if err := f.read(value); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				continue next
			}
		}
		return fmt.Errorf("there is no %q", key)
	}
	return nil
}
