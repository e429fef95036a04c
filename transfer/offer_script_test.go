package transfer

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"

	"kvferry/kvcache"
	"kvferry/wire"
)

// offerScript is an Offer and what its engine would know of it.
type offerScript struct {
	offer  *Offer
	cfg    OfferConfig
	tables []kvcache.BlockTable
	cursor int // prompt tokens computed
	first  bool
}

// newOfferScript reads: new [prompt=10] [tokens=N] [tpb=4] [windows=(0,..)] [state=BYTES]
func newOfferScript(t *testing.T, d *datadriven.TestData) *offerScript {
	o := &offerScript{first: true}
	o.cfg = OfferConfig{Request: "r", Layout: scriptLayout(t, d), PromptLen: arg(t, d, "prompt", 10)}
	o.tables = srcTables(o.cfg.Layout, arg(t, d, "tokens", o.cfg.PromptLen))
	o.offer = NewOffer(o.cfg, 0)
	return o
}

func (o *offerScript) run(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "start": // a pass over the next chunk goes out
		o.offer.Step(0, ChunkStarted{})
	case "computed": // and comes back: computed to=N [err=..]
		o.computed(t, d)
	case "chunk": // both at once
		o.offer.Step(0, ChunkStarted{})
		o.computed(t, d)
	case "taken-back": // the blocks go to others
		o.cursor, o.first = 0, true
		o.offer.Step(0, TakenBack{})
	case "completed": // completed [status=ok]
		o.offer.Step(0, completed(t, d))
	case "expired":
		o.offer.Step(0, Expired{})
	case "cancel":
		o.offer.Step(0, Cancel{Cause: causeOf(arg(t, d, "cause", "cancelled"))})
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

func (o *offerScript) computed(t *testing.T, d *datadriven.TestData) {
	c := kvcache.Chunk{Start: o.cursor, End: arg(t, d, "to", 0), First: o.first}
	c.Last = c.End == o.cfg.PromptLen
	ev := ChunkComputed{Chunk: c, Tables: o.tables, Err: errOf(arg(t, d, "err", ""))}
	if c.Last {
		ev.Aux = &wire.Aux{First: wire.TokenLogprob{Token: 42}}
	}
	o.cursor, o.first = c.End, false
	o.offer.Step(0, ev)
}

func (o *offerScript) show() string {
	out := showOutputs(o.offer.Outputs()) + "= " + o.offer.Phase()
	if o.offer.Held() {
		out += ", readable"
	}
	if o.offer.InFlight() {
		out += ", in a pass"
	}
	if o.offer.Ended() {
		out += ", ended"
	}
	if err := o.offer.Err(); err != nil {
		out += fmt.Sprintf(", %v", err)
	}
	return out + "\n"
}
