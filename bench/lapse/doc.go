// Package lapse proves that no KV is used whose lease lapsed before or while it was read, and
// measures what that proof costs. Its tests run engines in processes of their own.
package lapse
