//go:build !((linux || darwin) && (amd64 || arm64)) || !llamacpp

package main

import "errors"

var errNotBuilt = errors.New("this program was built without llama.cpp: build it with -tags llamacpp, on Linux or macOS, on amd64 or arm64")

// alone would be llama.cpp with nothing around it.
type alone struct{}

func newAlone(*options) (*alone, error) { return nil, errNotBuilt }

func (a *alone) answer([]int32, int) (speed, error) { return speed{}, errNotBuilt }

func (a *alone) close() {}
