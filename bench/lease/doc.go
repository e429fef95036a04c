// Package lease measures what it costs to renew many leases: the product's own tables and
// messages, encoded and decoded, with many readers of one granter in virtual time, beside renewal
// request by request, in which each heartbeat names every request that it renews.
package lease
