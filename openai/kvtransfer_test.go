package openai

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

// handle is an object with every field.
func handle() KVTransfer {
	return KVTransfer{
		DoRemotePrefill: true, RemoteEngineID: "00ff", RemoteRequestID: "r-1", RemoteBlockIDs: [][]int32{{5, 2, math.MaxInt32}, {}},
		RemoteHost: "127.0.0.1", RemotePort: 5600, TPSize: 2, PPSize: 1, RemoteNumTokens: 45, RemoteLeaseSlot: ptr(0),
		RemoteLeaseNonce: ptr(uint64(maxNonce)), RemoteBlocksExpiryTime: ptr(1234.5), RemoteBlockHashes: []string{"0a1b", "ff"},
		RemotePrefillCachedTokens: 16, TransferMode: "read",
	}
}

const handleJSON = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"00ff","remote_request_id":"r-1",` +
	`"remote_block_ids":[[5,2,2147483647],[]],"remote_host":"127.0.0.1","remote_port":5600,"tp_size":2,"pp_size":1,"remote_num_tokens":45,` +
	`"remote_lease_slot":0,"remote_lease_nonce":9007199254740991,"remote_blocks_expiry_time":1234.5,"remote_block_hashes":["0a1b","ff"],` +
	`"remote_prefill_cached_tokens":16,"transfer_mode":"read","dcp_size":1}`

// Slot 0 is a slot, and is not left out.
// req: LEASE-13, LEASE-23
func TestKVTransferOnTheWire(t *testing.T) {
	k := handle()
	if got := string(marshal(k)); got != handleJSON {
		t.Errorf("got  %s\nwant %s", got, handleJSON)
	}
	back, err := DecodeKVTransfer([]byte(handleJSON))
	if err != nil || !reflect.DeepEqual(*back, k) {
		t.Errorf("got %+v (%v), want %+v", back, err, k)
	}
	// A group without a list is one without blocks; nothing else is said of what is not known.
	k = KVTransfer{DoRemoteDecode: true, RemoteBlockIDs: [][]int32{nil, {1}}}
	if got := string(marshal(k)); got != `{"do_remote_prefill":false,"do_remote_decode":true,"remote_block_ids":[[],[1]],"dcp_size":1}` {
		t.Errorf("got %s", got)
	}
	if k.RemoteBlockIDs[0] != nil {
		t.Error("marshalling changed the value")
	}
}

// What a router may do to a number in its float64 does no harm, what another version adds is
// passed over, and what is missing stays visible as missing.
// req: LEASE-13, LEASE-17
// case: 16
func TestKVTransferIsTakenAsItComes(t *testing.T) {
	for _, c := range []struct {
		val  string
		want KVTransfer
	}{
		{askPrefill, KVTransfer{DoRemoteDecode: true}},
		{`{"do_remote_prefill":true}`, KVTransfer{DoRemotePrefill: true}},
		{
			`{"do_remote_prefill":true,"remote_lease_slot":null,"remote_lease_nonce":null,"remote_blocks_expiry_time":null,"remote_block_hashes":null}`,
			KVTransfer{DoRemotePrefill: true},
		},
		{`{"do_remote_prefill":true,"do_remote_decode":true,"dcp_size":1,"of_another_version":{"x":[1e400]}}`, KVTransfer{DoRemotePrefill: true, DoRemoteDecode: true}},
		{
			`{"do_remote_prefill":true,"remote_lease_slot":3.0,"remote_lease_nonce":9.007199254740991e15,"remote_num_tokens":4.5e1}`,
			KVTransfer{DoRemotePrefill: true, RemoteLeaseSlot: ptr(3), RemoteLeaseNonce: ptr(uint64(maxNonce)), RemoteNumTokens: 45},
		},
		{`{"do_remote_prefill":true,"remote_block_ids":[],"remote_block_hashes":[]}`, KVTransfer{DoRemotePrefill: true, RemoteBlockIDs: [][]int32{}, RemoteBlockHashes: []string{}}},
	} {
		for _, isChat := range []bool{false, true} {
			r, err := decodeEither(isChat, `"kv_transfer_params":`+c.val)
			if err != nil || !reflect.DeepEqual(*r.KV, c.want) {
				t.Errorf("%s: got %+v (%v), want %+v", c.val, r, err, c.want)
			}
		}
	}
	if r, err := decodeEither(false, `"kv_transfer_params":null`); err != nil || r.KV != nil {
		t.Errorf("null gives %+v (%v)", r, err)
	}
}

// A field of a wrong type or out of range is refused by its name.
// req: LEASE-13
func TestBadKVTransfer(t *testing.T) {
	for _, c := range []struct{ val, param, says string }{
		{`7`, "", "must be an object"},
		{`[]`, "", "must be an object"},
		{`{}`, "", "must ask for"},
		{`{"do_remote_prefill":false,"do_remote_decode":false}`, "", "must ask for"},
		{`{"do_remote_prefill":1}`, ".do_remote_prefill", "boolean"},
		{`{"do_remote_decode":"true"}`, ".do_remote_decode", "boolean"},
		{`{"remote_engine_id":7}`, ".remote_engine_id", "string"},
		{`{"remote_request_id":"a b"}`, ".remote_request_id", "printable"},
		{`{"remote_request_id":"` + strings.Repeat("x", 513) + `"}`, ".remote_request_id", "at most 512"},
		{`{"remote_host":["h"]}`, ".remote_host", "string"},
		{`{"remote_port":"5600"}`, ".remote_port", "number"},
		{`{"remote_port":65536}`, ".remote_port", "between 0 and 65535"},
		{`{"remote_port":-1}`, ".remote_port", "between 0 and 65535"},
		{`{"tp_size":1.5}`, ".tp_size", "integer"},
		{`{"pp_size":{}}`, ".pp_size", "number"},
		{`{"dcp_size":"1"}`, ".dcp_size", "number"},
		{`{"remote_num_tokens":4294967296}`, ".remote_num_tokens", "between"},
		{`{"remote_num_tokens":1e999}`, ".remote_num_tokens", "between"},
		{`{"remote_lease_slot":-1}`, ".remote_lease_slot", "between"},
		{`{"remote_lease_slot":"0"}`, ".remote_lease_slot", "number"},
		{`{"remote_lease_nonce":0}`, ".remote_lease_nonce", "between 1 and"},
		{`{"remote_lease_nonce":9007199254740992}`, ".remote_lease_nonce", "between 1 and"},
		{`{"remote_lease_nonce":true}`, ".remote_lease_nonce", "number"},
		{`{"remote_blocks_expiry_time":"soon"}`, ".remote_blocks_expiry_time", "number"},
		{`{"remote_blocks_expiry_time":-1e999}`, ".remote_blocks_expiry_time", "seconds"},
		{`{"remote_block_ids":7}`, ".remote_block_ids", "array"},
		{`{"remote_block_ids":[1,2]}`, ".remote_block_ids[0]", "list"},
		{`{"remote_block_ids":[[],null]}`, ".remote_block_ids[1]", "list"},
		{`{"remote_block_ids":[[0,-1]]}`, ".remote_block_ids[0]", "index 1"},
		{`{"remote_block_ids":[[2147483648]]}`, ".remote_block_ids[0]", "index 0"},
		{`{"remote_block_ids":[["1"]]}`, ".remote_block_ids[0]", "index 0"},
		{`{"remote_block_hashes":"aa"}`, ".remote_block_hashes", "array"},
		{`{"remote_block_hashes":[7]}`, ".remote_block_hashes[0]", "string"},
		{`{"remote_block_hashes":["aa","a"]}`, ".remote_block_hashes[1]", "hex"},
		{`{"remote_block_hashes":[""]}`, ".remote_block_hashes[0]", "hex"},
		{`{"remote_block_hashes":["` + strings.Repeat("aa", 65) + `"]}`, ".remote_block_hashes[0]", "hex"},
		{`{"remote_prefill_cached_tokens":[]}`, ".remote_prefill_cached_tokens", "number"},
		{`{"transfer_mode":1}`, ".transfer_mode", "string"},
		{`{"do_remote_decode":true},"disaggregated_params":{"request_type":"context_only","disagg_request_id":"r","schedule_style":1}`, "", "exclude"},
	} {
		_, err := decodeEither(false, `"kv_transfer_params":`+c.val)
		if err == nil || err.Status != 400 || err.Param != "kv_transfer_params"+c.param || !strings.Contains(err.Message, c.says) {
			t.Errorf("%s: got %v, want an error about %s that says %q", c.val, err, c.param, c.says)
		}
	}
}

// The answer of a prefill leg is an ordinary one with the handle beside it; others have none.
// req: LEASE-13
func TestPrefillLegsAnswer(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":0}},`
	k := handle()
	for _, c := range []struct {
		req  *Request
		want string
	}{
		{&Request{}, `{"id":"id-1","object":"text_completion","created":17,"model":"m","choices":[` +
			`{"index":0,"text":"a","logprobs":null,"finish_reason":"length"}],` + usage},
		{&Request{Chat: true, Stream: true}, `{"id":"id-1","object":"chat.completion","created":17,"model":"m","choices":[` +
			`{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"length"}],` + usage},
	} {
		got := NewEncoder(c.req, "id-1", 17, "m").FullKV(Piece{Text: "a"}, FinishLength, NewUsage(5, 1, 0), &k)
		compare(t, []string{string(got)}, []string{c.want + `"kv_transfer_params":` + handleJSON + "}"})
		raw, err := KVTransferOf(got)
		if err != nil || string(raw) != handleJSON {
			t.Errorf("the handle in it is %s (%v)", raw, err)
		}
		raw, err = KVTransferOf(NewEncoder(c.req, "id-1", 17, "m").Full(Piece{}, FinishStop, Usage{}))
		if err != nil || raw != nil {
			t.Errorf("the handle in an ordinary answer is %s (%v)", raw, err)
		}
	}
}

// A router finds the object of whatever version, and nothing that is no object.
func TestKVTransferOf(t *testing.T) {
	for _, c := range []struct{ answer, want, err string }{
		{` {"kv_transfer_params" : { "a":1.50e0 } , "x":1}`, `{ "a":1.50e0 }`, ""},
		{`{"kv_transfer_params":null}`, "", ""},
		{`{"KV_transfer_params":{"a":1}}`, "", ""},
		{`{"kv_transfer_params":[1]}`, "", "must be an object"},
		{`{"kv_transfer_params":{}`, "", "not valid JSON"},
		{`[]`, "", "must be a JSON object"},
	} {
		got, err := KVTransferOf([]byte(c.answer))
		if string(got) != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %s, %v", c.answer, got, err)
		}
	}
}

// Numbers, spelling, order and white space of a client's body and of the handle are unchanged.
// case: 16
func TestWithKVTransferKeepsTheBody(t *testing.T) {
	const obj = `{ "remote_lease_nonce" : 9.007199254740991E15, "x":"\u00e9<" }`
	for _, c := range []struct{ body, want string }{
		{
			` { "seed" : 9223372036854775807, "model":"m\u006d", "prompt":"{<é>", "temperature":7.00E-1 } `,
			` {"kv_transfer_params":` + obj + `, "seed" : 9223372036854775807, "model":"m\u006d", "prompt":"{<é>", "temperature":7.00E-1 } `,
		},
		{`{}`, `{"kv_transfer_params":` + obj + `}`},
	} {
		got, err := WithKVTransfer([]byte(c.body), json.RawMessage(obj))
		if err != nil || string(got) != c.want {
			t.Errorf("got  %s (%v)\nwant %s", got, err, c.want)
		}
	}
}

// A client cannot hand in what only a router may say.
func TestWithKVTransferRefuses(t *testing.T) {
	for _, c := range []struct{ body, kv, want string }{
		{`{"model":"m","kv_transfer_params":{}}`, `{}`, "set by the router"},
		{`{"model":"m","kv\u005ftransfer_params":null}`, `{}`, "set by the router"},
		{`{"model":"m","disaggregated_params":null}`, `{}`, "set by the router"},
		{`[]`, `{}`, "must be a JSON object"},
		{`{}`, `[]`, "must be a JSON object"},
		{`{}`, `{`, "not valid JSON"},
		{`{}`, ``, "empty"},
	} {
		out, err := WithKVTransfer([]byte(c.body), json.RawMessage(c.kv))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, %v, want %q", c.body, out, err, c.want)
		}
	}
	if out, err := WithDisagg([]byte(`{"kv_transfer_params":null}`), forPrefill); err == nil {
		t.Errorf("got %s", out)
	}
}

// Of a handle that a prefill engine is to read from, one member is changed and no other byte.
// req: LEASE-20
func TestPrefillLeg(t *testing.T) {
	for _, c := range []struct{ turn, want string }{
		{``, askPrefill},
		{` {"a": 1.0 , "do_remote_decode" : false , "z":{"do_remote_decode":false}} `, `{"a": 1.0 , "do_remote_decode" : true , "z":{"do_remote_decode":false}}`},
		{`{"do_remote\u005fdecode":null}`, `{"do_remote\u005fdecode":true}`},
		{`{"z":{"do_remote_decode":false}}`, `{"do_remote_decode":true,"z":{"do_remote_decode":false}}`},
		{`{}`, `{"do_remote_decode":true}`},
	} {
		var turn json.RawMessage
		if c.turn != "" {
			turn = json.RawMessage(c.turn)
		}
		got, err := PrefillLeg(turn)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s (%v), want %s", c.turn, got, err, c.want)
		}
	}
	for _, bad := range []string{`[]`, `{`, ` `} {
		if got, err := PrefillLeg(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: got %s", bad, got)
		}
	}
}
