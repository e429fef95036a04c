package openai

import (
	"bytes"
	"encoding/json"
	"slices"
)

// askPrefill is kv_transfer_params for a prefill engine that has nobody's KV to read.
const askPrefill = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,` +
	`"remote_request_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// PrefillLeg is kv_transfer_params for the prefill engine: compute the prompt, and hold its KV
// for another. turn is the handle that a decode engine gave with the conversation's turn
// before, whose KV is to be read, or nil. Of it only do_remote_decode is changed.
func PrefillLeg(turn json.RawMessage) (json.RawMessage, error) {
	if turn == nil {
		return json.RawMessage(askPrefill), nil
	}
	if _, err := object(turn); err != nil {
		return nil, err
	}
	turn = bytes.TrimSpace(turn)
	c := cursor{b: turn, i: 1}
	for !c.at('}') {
		key := unquote(c.item())
		c.at(':')
		val := c.item()
		if key == "do_remote_decode" {
			return slices.Concat(turn[:c.i-len(val)], []byte("true"), turn[c.i:]), nil
		}
		c.at(',')
	}
	return insert(turn, []byte(`"do_remote_decode":true`))
}

// KVTransferOf is the handle in an engine's answer, as it is there; nil if there is none. To
// whoever passes it on it is opaque.
func KVTransferOf(answer []byte) (json.RawMessage, error) {
	all, err := object(answer)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if v := (value{name: m.key, raw: m.raw}); m.key == kvParam && !v.isNull() {
			if !v.isObject() {
				return nil, v.bad("must be an object")
			}
			return m.raw, nil
		}
	}
	return nil, nil
}

// WithKVTransfer puts kv_transfer_params into a client's body, which must have neither it nor
// disaggregated_params. The object and everything else keep their bytes, so numbers and their
// spelling pass unchanged (case 16).
func WithKVTransfer(body []byte, kv json.RawMessage) ([]byte, error) {
	if _, err := object(kv); err != nil {
		return nil, err
	}
	return withParam(body, kvParam, kv)
}

// withParam puts a parameter that only a router may give into a client's body.
func withParam(body []byte, name string, val []byte) ([]byte, error) {
	all, err := object(body)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.key == disaggParam || m.key == kvParam {
			return nil, value{name: m.key}.bad("is set by the router and must not be given")
		}
	}
	return insert(body, slices.Concat([]byte(`"`+name+`":`), val))
}

// insert puts a member before all others of an object.
func insert(obj, field []byte) ([]byte, error) {
	all, err := object(obj)
	if err != nil {
		return nil, err
	}
	cut := bytes.IndexByte(obj, '{') + 1
	if len(all) > 0 {
		return slices.Concat(obj[:cut], field, []byte{','}, obj[cut:]), nil
	}
	return slices.Concat(obj[:cut], field, obj[cut:]), nil
}
