package node

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"kvferry/engine"
	"kvferry/kvcache"
	"kvferry/openai"
	"kvferry/openai/httpapi"
	"kvferry/wire"
)

// transferRead is transfer_mode of KV that its reader fetches.
const transferRead = "read"

// giveHandle is kv_transfer_params for whoever is to read what we hold. host is the one by
// which we were asked, for an agent that listens on all addresses.
func (e *Engine) giveHandle(h *engine.Handle, host string) (*openai.KVTransfer, error) {
	name, port, err := net.SplitHostPort(e.AgentAddr())
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		name = host
		if n, _, err := net.SplitHostPort(host); err == nil {
			name = n
		}
	}
	kv := &openai.KVTransfer{
		DoRemotePrefill: true, RemoteEngineID: e.life.String(), RemoteRequestID: h.Request,
		RemoteHost: name, TPSize: e.cfg.TensorParallel, PPSize: e.cfg.PipelineParallel,
		RemoteNumTokens: h.Tokens, RemotePrefillCachedTokens: h.Cached, TransferMode: transferRead,
	}
	if kv.RemotePort, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	for _, list := range h.Blocks {
		ids := make([]int32, len(list))
		for i, b := range list {
			ids[i] = int32(b)
		}
		kv.RemoteBlockIDs = append(kv.RemoteBlockIDs, ids)
	}
	for _, key := range h.Hashes {
		kv.RemoteBlockHashes = append(kv.RemoteBlockHashes, hex.EncodeToString(key[:]))
	}
	if h.Slot >= 0 && h.Nonce != 0 {
		kv.RemoteLeaseSlot, kv.RemoteLeaseNonce = &h.Slot, &h.Nonce
	}
	if h.Before.Nonce != 0 {
		kv.TurnEngineID, kv.TurnLeaseNonce = h.Before.Life.String(), &h.Before.Nonce
	}
	if h.Expiry > 0 {
		kv.RemoteBlocksExpiryTime = new(time.Duration(h.Expiry).Seconds())
	}
	return kv, nil
}

// takeHandle is what kv_transfer_params says of KV that another engine holds. What proves a read
// may have been lost on the way; then the load fails, and not the request's form.
func takeHandle(kv *openai.KVTransfer) (*engine.Handle, *openai.Error) {
	h := &engine.Handle{
		Request: kv.RemoteRequestID, Tokens: kv.RemoteNumTokens, Cached: kv.RemotePrefillCachedTokens, Slot: -1,
	}
	var err error
	switch {
	case kv.RemoteEngineID == "":
		return nil, kvError("remote_engine_id", errRequired)
	case kv.RemoteRequestID == "":
		return nil, kvError("remote_request_id", errRequired)
	case kv.RemoteHost == "":
		return nil, kvError("remote_host", errRequired)
	case kv.RemotePort == 0:
		return nil, kvError("remote_port", errRequired)
	case kv.RemoteNumTokens == 0:
		return nil, kvError("remote_num_tokens", errRequired)
	case kv.RemoteBlockIDs == nil:
		return nil, kvError("remote_block_ids", errRequired)
	}
	if h.Life, err = wire.ParseLife(kv.RemoteEngineID); err != nil {
		return nil, kvError("remote_engine_id", err)
	}
	h.Addr = net.JoinHostPort(kv.RemoteHost, strconv.Itoa(kv.RemotePort))
	for _, list := range kv.RemoteBlockIDs {
		blocks := make([]kvcache.BlockID, len(list))
		for i, id := range list {
			blocks[i] = kvcache.BlockID(id)
		}
		h.Blocks = append(h.Blocks, blocks)
	}
	for _, s := range kv.RemoteBlockHashes {
		b, err := hex.DecodeString(s)
		if err != nil || len(b) != len(kvcache.Key{}) {
			return nil, kvError("remote_block_hashes", errHash)
		}
		h.Hashes = append(h.Hashes, kvcache.Key(b))
	}
	// One of them without the other is another fault than none (ReasonFields).
	if kv.RemoteLeaseSlot != nil {
		h.Slot = *kv.RemoteLeaseSlot
	}
	if kv.RemoteLeaseNonce != nil {
		h.Nonce = *kv.RemoteLeaseNonce
	}
	if kv.TurnEngineID != "" && kv.TurnLeaseNonce != nil {
		h.Before.Nonce = *kv.TurnLeaseNonce
		if h.Before.Life, err = wire.ParseLife(kv.TurnEngineID); err != nil {
			return nil, kvError("turn_engine_id", err)
		}
	}
	if kv.RemoteBlocksExpiryTime != nil {
		h.Expiry = int64(*kv.RemoteBlocksExpiryTime * float64(time.Second))
	}
	return h, nil
}

var (
	errRequired = errors.New("is required of a handle")
	errHash     = errors.New("must be hashes of 64 hex digits")
)

func kvError(field string, err error) *openai.Error {
	return openai.BadRequest("kv_transfer_params."+field, "kv_transfer_params.%s: %s", field, err)
}

// handOver turns kv_transfer_params into the engine's part in the request.
func (e *Engine) handOver(r *engine.Request, kv *openai.KVTransfer) (fail *openai.Error) {
	switch {
	case e.cfg.Role == engine.Prefill && kv.DoRemoteDecode:
		r.Leg, r.Hold = engine.PrefillLeg, true
	case e.cfg.Role == engine.Decode && kv.DoRemotePrefill:
		r.Leg = engine.DecodeLeg
	default:
		return openai.BadRequest("kv_transfer_params", "%s", engine.ErrRole)
	}
	if kv.DoRemotePrefill {
		if r.Pull, fail = takeHandle(kv); fail != nil {
			return fail
		}
		r.Pull.Turn = r.Hold
	}
	return nil
}

// attempt is the router's count, or 0 from a router that does not count.
func attempt(h http.Header) uint32 {
	n, err := strconv.ParseUint(h.Get(httpapi.HeaderAttempt), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// releaseLease gives up a lease that nobody will take: a router says so, whose client left before
// a decode engine had the handle (case 06).
func (e *Engine) releaseLease(w http.ResponseWriter, r *http.Request) {
	if !e.trusts(r) {
		httpapi.WriteError(w, untrusted())
		return
	}
	body, fail := httpapi.ReadBody(w, r)
	if fail != nil {
		httpapi.WriteError(w, fail)
		return
	}
	kv, fail := openai.DecodeKVTransfer(body)
	if fail != nil {
		httpapi.WriteError(w, fail)
		return
	}
	switch {
	case kv.RemoteEngineID == "" && kv.DoRemoteDecode:
		e.loop.abort(kv.RemoteRequestID, errClientGone) // a leg that was cut, whatever has become of it
	case kv.RemoteEngineID == e.life.String() && kv.RemoteLeaseNonce != nil:
		e.loop.forget(kv.RemoteRequestID, *kv.RemoteLeaseNonce)
	}
	w.WriteHeader(http.StatusNoContent)
}

// turnTrailer hands the turn that ended to the router, if it is not too long for a trailer.
func (e *Engine) turnTrailer(h *engine.Handle, host string) string {
	kv, err := e.giveHandle(h, host)
	if err != nil {
		return ""
	}
	b, err := json.Marshal(kv)
	if err != nil || len(b) > httpapi.MaxTurn {
		return ""
	}
	return string(b)
}
