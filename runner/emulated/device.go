package emulated

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// device is what a model is computed on.
type device struct {
	// flops is the peak of dense bf16 or f16 arithmetic in operations a second, and bandwidth
	// that of memory in bytes a second.
	flops, bandwidth float64
	// compute and traffic are the shares of the peaks that a good engine reaches.
	compute, traffic float64
	// memory is the size in bytes, 0 if it is no matter.
	memory float64
	// pass is what each pass costs besides: launches, sampling, scheduling.
	pass time.Duration
}

// devices holds the peaks of the makers' data sheets (dense figures, not those with
// sparsity). The shares are assumptions for the GPUs: half of the arithmetic and seven
// tenths of the bandwidth. For Apple's chip both are measured ones: llama.cpp's authors give
// 1265 tokens/s for a prompt of 512 and 41.4 tokens/s for decoding LLaMA 7B in F16 (6.74e9
// weights) on an M2 Ultra (pull requests 3084 and 2891), which is 0.63 of 27.2 TFLOP/s and
// 0.70 of 800 GB/s. The cost of a pass is an assumption everywhere.
//
// What follows, for one sequence: llama-3.1-8b on an h100 30,800 prompt tokens/s and 7.3 ms a
// token, on an l4 3,770 and 77 ms.
var devices = map[string]device{
	// NVIDIA H100 SXM5 80 GB.
	"h100": {flops: 989.4e12, bandwidth: 3.35e12, compute: 0.5, traffic: 0.7, memory: 80e9, pass: 500 * time.Microsecond},
	// NVIDIA A100 SXM4 80 GB.
	"a100": {flops: 312e12, bandwidth: 2.039e12, compute: 0.5, traffic: 0.7, memory: 80e9, pass: 500 * time.Microsecond},
	// NVIDIA L4 24 GB.
	"l4": {flops: 121e12, bandwidth: 300e9, compute: 0.5, traffic: 0.7, memory: 24e9, pass: 500 * time.Microsecond},
	// NVIDIA GeForce RTX 4090 24 GB (f16 with f32 accumulation).
	"rtx4090": {flops: 165.2e12, bandwidth: 1.008e12, compute: 0.5, traffic: 0.7, memory: 24e9, pass: 500 * time.Microsecond},
	// Apple M2 Ultra, 76 GPU cores, 192 GB.
	"m2-ultra": {flops: 27.2e12, bandwidth: 800e9, compute: 0.63, traffic: 0.70, memory: 192e9, pass: time.Millisecond},
	// Made up: about 20,000 prompt tokens/s for the models of the same name, and 2 ms a pass at least.
	"test": {flops: 50e9, bandwidth: 10e9, compute: 1, traffic: 1, pass: 2 * time.Millisecond},
}

// maxDevices bounds how many devices compute a model together.
const maxDevices = 16

// parseDevice finds h100, or 4xh100 for four of them. Several have the sum of their peaks;
// what they tell each other is not counted.
func parseDevice(name string) (device, error) {
	if d, ok := devices[name]; ok {
		return d, nil
	}
	count, one, _ := strings.Cut(name, "x")
	n, err := strconv.Atoi(count)
	d, ok := devices[one]
	if err != nil || !ok {
		return device{}, fmt.Errorf("device %q: want one of %s, or several as in 4xh100", name, names(devices))
	}
	if n < 1 || n > maxDevices {
		return device{}, fmt.Errorf("device %q: want 1 to %d of them", name, maxDevices)
	}
	d.flops *= float64(n)
	d.bandwidth *= float64(n)
	d.memory *= float64(n)
	return d, nil
}
