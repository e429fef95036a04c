package engine

import "kvferry/kvcache"

// WrapPools lets a test stand between an engine and its pools.
func (e *Engine) WrapPools(wrap func(kvcache.Manager) kvcache.Manager) { e.pools = wrap(e.pools) }
