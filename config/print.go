package config

import "github.com/goccy/go-yaml"

// YAML writes c as a file that loads as c.
func (c Config) YAML() ([]byte, error) { return yaml.MarshalWithOptions(c, yaml.IndentSequence(true)) }
