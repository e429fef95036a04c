package openai

import (
	"encoding/hex"
	"math"
	"slices"
	"strconv"
)

// kvParam is the parameter's name.
const kvParam = "kv_transfer_params"

// The limits of KVTransfer's fields.
const (
	// maxNonce is the largest nonce: 53 bits, which a float64 keeps exactly.
	maxNonce     = 1<<53 - 1
	maxPort      = math.MaxUint16
	maxBlockHash = 64
)

// KVTransfer is kv_transfer_params: what an engine hands to another, through a router to which
// it is opaque, so that the other one can read its KV. Names are vLLM's. A field that was not
// given is zero or nil, and it is for the engine to say what it cannot do without: a handle
// without slot and nonce cannot be verified. LEASE-13, LEASE-20
type KVTransfer struct {
	// DoRemotePrefill says that KV is to be read from the engine that is named here.
	DoRemotePrefill bool `json:"do_remote_prefill"`
	// DoRemoteDecode asks for prefill alone: the KV is held for another engine, and the answer
	// has the handle.
	DoRemoteDecode bool `json:"do_remote_decode"`
	// RemoteEngineID is the holder's life, in hex.
	RemoteEngineID string `json:"remote_engine_id,omitempty"`
	// RemoteRequestID is the request's ID on the holder.
	RemoteRequestID string `json:"remote_request_id,omitempty"`
	// RemoteBlockIDs has a list for each layer group: the blocks that are resident, which end
	// with the last block of the RemoteNumTokens. Nil was not given.
	RemoteBlockIDs [][]int32 `json:"remote_block_ids,omitzero"`
	// RemoteHost and RemotePort are where the holder's transfer agent listens.
	RemoteHost string `json:"remote_host,omitempty"`
	RemotePort int    `json:"remote_port,omitempty"`
	// TPSize and PPSize are the holder's tensor-parallel ranks and pipeline stages.
	TPSize int `json:"tp_size,omitempty"`
	PPSize int `json:"pp_size,omitempty"`
	// RemoteNumTokens is how many tokens have their KV in the blocks.
	RemoteNumTokens int `json:"remote_num_tokens,omitempty"`
	// RemoteLeaseSlot is where the holder's memory has the nonce while the blocks are the
	// request's; RemoteLeaseNonce is from 1 to 2^53-1.
	RemoteLeaseSlot  *int    `json:"remote_lease_slot,omitempty"`
	RemoteLeaseNonce *uint64 `json:"remote_lease_nonce,omitempty"`
	// RemoteBlocksExpiryTime is when the holder lets go, in seconds of its own clock.
	RemoteBlocksExpiryTime *float64 `json:"remote_blocks_expiry_time,omitempty"`
	// RemoteBlockHashes is the hash chain of the whole blocks, in hex. LEASE-23
	RemoteBlockHashes []string `json:"remote_block_hashes,omitzero"`
	// RemotePrefillCachedTokens is how many of the prompt's tokens the holder had in its cache.
	RemotePrefillCachedTokens int `json:"remote_prefill_cached_tokens,omitempty"`
	// TurnEngineID and TurnLeaseNonce name the turn before, which the reader of this handle holds
	// itself, perhaps, and needs no longer. LEASE-20
	TurnEngineID   string  `json:"turn_engine_id,omitempty"`
	TurnLeaseNonce *uint64 `json:"turn_lease_nonce,omitempty"`
	// TransferMode names the way the KV travels.
	TransferMode string `json:"transfer_mode,omitempty"`
}

// MarshalJSON gives the object as it goes over the wire, in which every group has a list.
func (k KVTransfer) MarshalJSON() ([]byte, error) {
	// An alias without this method.
	type fields KVTransfer
	if slices.ContainsFunc(k.RemoteBlockIDs, func(ids []int32) bool { return ids == nil }) {
		k.RemoteBlockIDs = slices.Clone(k.RemoteBlockIDs)
		for i, ids := range k.RemoteBlockIDs {
			k.RemoteBlockIDs[i] = append([]int32{}, ids...)
		}
	}
	return marshal(struct {
		fields
		// Context parallelism is not built: KV is whole on every rank that has its heads.
		DCPSize int `json:"dcp_size"`
	}{fields(k), 1}), nil
}

// setKVTransfer takes the object. Fields that are not known are passed over, since they come
// and go with the versions of whoever made it.
func setKVTransfer(r *Request, v value) *Error {
	k, err := kvTransfer(v)
	r.KV = k
	return err
}

// DecodeKVTransfer decodes an object by itself, as a router sends it back to release it.
func DecodeKVTransfer(raw []byte) (*KVTransfer, *Error) {
	all, err := object(raw)
	if err != nil {
		return nil, err
	}
	return kvFields(value{name: kvParam}, all)
}

func kvTransfer(v value) (*KVTransfer, *Error) {
	all, err := v.members()
	if err != nil {
		return nil, err
	}
	return kvFields(v, all)
}

func kvFields(v value, all []member) (*KVTransfer, *Error) {
	k := &KVTransfer{}
	for _, m := range all {
		f := v.field(m)
		set, known := kvSetters[m.key]
		if !known || f.isNull() {
			continue
		}
		if err := set(k, f); err != nil {
			return nil, err
		}
	}
	if !k.DoRemotePrefill && !k.DoRemoteDecode {
		return nil, v.bad("must ask for do_remote_prefill or do_remote_decode")
	}
	return k, nil
}

// kvSetters takes each field that is known; none is null.
var kvSetters = map[string]func(*KVTransfer, value) *Error{
	"do_remote_prefill": func(k *KVTransfer, v value) (err *Error) {
		k.DoRemotePrefill, err = v.bool()
		return err
	},
	"do_remote_decode": func(k *KVTransfer, v value) (err *Error) {
		k.DoRemoteDecode, err = v.bool()
		return err
	},
	"remote_engine_id":  kvWord(func(k *KVTransfer) *string { return &k.RemoteEngineID }),
	"remote_request_id": kvWord(func(k *KVTransfer) *string { return &k.RemoteRequestID }),
	"remote_block_ids": func(k *KVTransfer, v value) (err *Error) {
		k.RemoteBlockIDs, err = v.blockIDs()
		return err
	},
	"remote_host":       kvWord(func(k *KVTransfer) *string { return &k.RemoteHost }),
	"remote_port":       kvCount(maxPort, func(k *KVTransfer) *int { return &k.RemotePort }),
	"tp_size":           kvCount(maxTokensLimit, func(k *KVTransfer) *int { return &k.TPSize }),
	"pp_size":           kvCount(maxTokensLimit, func(k *KVTransfer) *int { return &k.PPSize }),
	"dcp_size":          kvCount(maxTokensLimit, func(*KVTransfer) *int { return new(int) }),
	"remote_num_tokens": kvCount(maxTokensLimit, func(k *KVTransfer) *int { return &k.RemoteNumTokens }),
	"remote_lease_slot": kvCount(maxTokensLimit, func(k *KVTransfer) *int {
		k.RemoteLeaseSlot = new(int)
		return k.RemoteLeaseSlot
	}),
	"remote_lease_nonce": setLeaseNonce,
	"turn_engine_id":     kvWord(func(k *KVTransfer) *string { return &k.TurnEngineID }),
	"turn_lease_nonce": func(k *KVTransfer, v value) (err *Error) {
		n, err := v.whole(1, maxNonce)
		k.TurnLeaseNonce = &n
		return err
	},
	"remote_blocks_expiry_time": func(k *KVTransfer, v value) *Error {
		f, err := v.number()
		if err == nil && math.IsInf(f, 0) {
			err = v.bad("must be a number of seconds")
		}
		k.RemoteBlocksExpiryTime = &f
		return err
	},
	"remote_block_hashes": func(k *KVTransfer, v value) (err *Error) {
		k.RemoteBlockHashes, err = v.hashes()
		return err
	},
	"remote_prefill_cached_tokens": kvCount(maxTokensLimit, func(k *KVTransfer) *int { return &k.RemotePrefillCachedTokens }),
	"transfer_mode":                kvWord(func(k *KVTransfer) *string { return &k.TransferMode }),
}

func kvWord(field func(*KVTransfer) *string) func(*KVTransfer, value) *Error {
	return func(k *KVTransfer, v value) *Error {
		s, err := v.string()
		if err == nil && s != "" && !printable(s, maxEndpoint) {
			return v.bad("must be at most %d printable ASCII characters without spaces", maxEndpoint)
		}
		*field(k) = s
		return err
	}
}

func kvCount(limit int, field func(*KVTransfer) *int) func(*KVTransfer, value) *Error {
	return func(k *KVTransfer, v value) *Error {
		n, err := v.whole(0, uint64(limit))
		if err == nil {
			*field(k) = int(n)
		}
		return err
	}
}

func setLeaseNonce(k *KVTransfer, v value) *Error {
	n, err := v.whole(1, maxNonce)
	k.RemoteLeaseNonce = &n
	return err
}

// whole reads a number of at most 53 bits that has no fraction, however it is spelled: one that
// passed through a router's float64 may have become 7.0 or 7e0.
func (v value) whole(lo, hi uint64) (uint64, *Error) {
	f, err := v.number()
	if err != nil {
		return 0, err
	}
	if f != math.Trunc(f) {
		return 0, v.bad("must be an integer")
	}
	if f < float64(lo) || f > float64(hi) {
		return 0, v.bad("must be between %d and %d", lo, hi)
	}
	return uint64(f), nil
}

// blockIDs reads a list of lists of block numbers.
func (v value) blockIDs() ([][]int32, *Error) {
	if !v.isArray() {
		return nil, v.bad("must be an array with a list of block IDs for each layer group")
	}
	out := [][]int32{}
	for i, raw := range elements(v.raw) {
		group := v.element(i, raw)
		if !group.isArray() {
			return nil, group.bad("must be a list of block IDs")
		}
		ids := []int32{}
		for j, id := range elements(raw) {
			n, err := strconv.ParseInt(string(id), 10, 32)
			if err != nil || n < 0 {
				return nil, group.bad("has a block ID at index %d that is no integer between 0 and %d", j, math.MaxInt32)
			}
			ids = append(ids, int32(n))
		}
		out = append(out, ids)
	}
	return out, nil
}

// hashes reads a list of hashes in hex.
func (v value) hashes() ([]string, *Error) {
	if !v.isArray() {
		return nil, v.bad("must be an array of hashes in hex")
	}
	out := []string{}
	for i, raw := range elements(v.raw) {
		e := v.element(i, raw)
		s, err := e.string()
		if err != nil {
			return nil, err
		}
		if b, bad := hex.DecodeString(s); bad != nil || len(b) == 0 || len(b) > maxBlockHash {
			return nil, e.bad("must be a hash of 1 to %d bytes in hex", maxBlockHash)
		}
		out = append(out, s)
	}
	return out, nil
}
