// Package reftest makes model files for tests: small random models of any shape, and
// F16 builds of quantised ones.
package reftest
