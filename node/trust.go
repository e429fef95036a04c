package node

import (
	"crypto/subtle"
	"net/http"

	"kvferry/openai"
	"kvferry/openai/httpapi"
)

// trusts says whether a request comes from the deployment's router: whoever can name a block
// could read somebody's prompt.
func (e *Engine) trusts(r *http.Request) bool {
	if e.cfg.TrustNetwork {
		return true
	}
	given := r.Header.Get(httpapi.HeaderToken)
	return e.cfg.Token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(e.cfg.Token)) == 1
}

func untrusted() *openai.Error {
	return openai.Forbidden("this engine takes its part in a request only from a router with the deployment's token: give both the same --token, or this one --trust-network")
}
