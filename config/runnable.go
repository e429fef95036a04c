package config

// unbuilt is what a valid configuration asks for and this program cannot run yet.
func unbuilt(c Config) (found []Finding) {
	if *c.ScheduleStyle == ContextFirst {
		found = append(found, at("schedule_style", "%s: cannot run yet: only %s is built", ContextFirst, GenerationFirst))
	}
	for _, s := range c.sides() {
		if n := *s.TensorParallelSize; n > 1 {
			found = append(found, s.at("tensor_parallel_size", "%d: cannot run yet: only 1 is built", n))
		}
		if n := *s.PipelineParallelSize; n > 1 {
			found = append(found, s.at("pipeline_parallel_size", "%d: cannot run yet: only 1 is built", n))
		}
		if mb := *s.Transceiver.KVCacheBounceSizeMB; mb > 0 {
			found = append(found, s.at(bounceKey, "%d: cannot run yet: bounce buffers are not built", mb))
		}
	}
	return found
}

// Runnable refuses a resolved configuration that this program cannot run yet, naming the
// settings. The error is an *Error.
func Runnable(c Config) error { return faulty("", unbuilt(c)) }
