package config

// unbuilt is what a valid configuration asks for and this program cannot run yet. Whether a
// model can have several ranks is for its runner to say.
func unbuilt(c Config) (found []Finding) {
	for _, s := range c.sides() {
		if mb := *s.Transceiver.KVCacheBounceSizeMB; mb > 0 {
			found = append(found, s.at(bounceKey, "%d: cannot run yet: bounce buffers are not built", mb))
		}
	}
	return found
}
