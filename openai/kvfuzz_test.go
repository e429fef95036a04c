package openai

import (
	"encoding/json"
	"reflect"
	"testing"
)

func addHandles(f *testing.F) {
	for _, s := range []string{
		handleJSON, askPrefill, `{"do_remote_decode":true,"remote_block_ids":[[1],[],[2,3]]}`, `{"do_remote_prefill":true,"tp_size":1.0}`,
		` {"do_remote_decode" : false } `, `{"remote_block_hashes":["zz"]}`, `{"remote_lease_nonce":1e16}`, `{"a":{"do_remote_decode":1}}`,
	} {
		f.Add([]byte(s))
	}
}

// What is let through survives being written and read again, and is within its limits.
// req: LEASE-13
func FuzzDecodeKVTransfer(f *testing.F) {
	addHandles(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := DecodeKVTransfer(raw)
		if (k == nil) == (err == nil) {
			t.Fatalf("got %v and %v", k, err)
		}
		if err != nil {
			if err.Status != 400 || err.Message == "" {
				t.Fatalf("error is %+v", err)
			}
			return
		}
		checkKVTransfer(t, k)
		back, err := DecodeKVTransfer(marshal(k))
		if err != nil || !reflect.DeepEqual(back, k) {
			t.Fatalf("%+v is read back as %+v (%v)", k, back, err)
		}
	})
}

func checkKVTransfer(t *testing.T, k *KVTransfer) {
	t.Helper()
	switch {
	case !k.DoRemoteDecode && !k.DoRemotePrefill, k.RemotePort < 0, k.RemotePort > maxPort, k.TPSize < 0, k.PPSize < 0, k.RemoteNumTokens < 0,
		k.RemoteLeaseSlot != nil && *k.RemoteLeaseSlot < 0,
		k.RemoteLeaseNonce != nil && (*k.RemoteLeaseNonce == 0 || float64(*k.RemoteLeaseNonce) > maxNonce):
		t.Fatalf("let through: %+v", k)
	}
	for _, ids := range k.RemoteBlockIDs {
		for _, id := range ids {
			if ids == nil || id < 0 {
				t.Fatalf("let through: %v", k.RemoteBlockIDs)
			}
		}
	}
}

// A client's body and a handle keep their bytes on the way to an engine, which reads of the
// body what it read before.
// case: 16
func FuzzWithKVTransfer(f *testing.F) {
	for _, kv := range []string{handleJSON, askPrefill, `{}`} {
		f.Add([]byte(completion(`"seed":9223372036854775807`)), []byte(kv))
		f.Add([]byte(chat(`"temperature":0.7e0`)), []byte(kv))
		f.Add([]byte(` { } `), []byte(kv))
	}
	f.Fuzz(func(t *testing.T, body, kv []byte) {
		out, err := WithKVTransfer(body, kv)
		if err != nil {
			return
		}
		before, _ := object(body)
		after, bad := object(out)
		if bad != nil {
			t.Fatalf("%s: %v", out, bad)
		}
		if after[0].key != kvParam || !reflect.DeepEqual(append([]member{}, before...), after[1:]) {
			t.Fatalf("%s\nbecame\n%s", body, out)
		}
		if string(after[0].raw) != string(trimmed(kv)) {
			t.Fatalf("the handle\n%s\nbecame\n%s", kv, after[0].raw)
		}
	})
}

func trimmed(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// A turn's handle becomes a prefill leg's by one member alone.
// req: LEASE-20
func FuzzPrefillLeg(f *testing.F) {
	addHandles(f)
	f.Fuzz(func(t *testing.T, turn []byte) {
		out, err := PrefillLeg(turn)
		if err != nil {
			return
		}
		if turn == nil {
			turn = []byte(`{}`)
		}
		var was, is map[string]json.RawMessage
		if json.Unmarshal(turn, &was) != nil || json.Unmarshal(out, &is) != nil {
			t.Fatalf("%s became %s", turn, out)
		}
		if string(is["do_remote_decode"]) != "true" {
			t.Fatalf("%s became %s", turn, out)
		}
		delete(was, "do_remote_decode")
		delete(is, "do_remote_decode")
		if string(out) != askPrefill && !reflect.DeepEqual(was, is) {
			t.Fatalf("%s became %s", turn, out)
		}
	})
}
