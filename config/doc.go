// Package config is kvferry's settings as data: one YAML file in the shape that TensorRT-LLM's
// disaggregated users know, flags over it, and one function that resolves and validates both.
//
// A Config is sparse: nil is unsaid. Parse reads one from a file, Overrides.apply puts flags
// over it, and Resolve alone decides what unsaid settings are and which combinations are
// refused (PIPE-24). Load runs the three, and gives every fault at once, each with its place.
// In a resolved Config nothing is nil.
//
// The package reads no file, opens nothing and logs nothing: bytes in, values and findings out.
package config
