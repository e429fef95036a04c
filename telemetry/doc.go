// Package telemetry turns what happens in an engine into Prometheus metrics. It
// counts at the moment of the event and never walks over requests.
package telemetry
