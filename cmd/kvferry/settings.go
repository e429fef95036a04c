package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"kvferry/config"
)

// settings are a command's configuration file with its flags over it.
type settings struct {
	use  config.Use
	file string
	over config.Overrides
}

func (s *settings) fileFlag(f *pflag.FlagSet) {
	f.StringVar(&s.file, "config", "", "YAML `FILE` with settings; flags go before it (see kvferry check)")
	styleFlag(f, &s.over)
}

// source reads the file, if one was named.
func (s *settings) source() (config.Source, error) {
	src := config.Source{Use: s.use, File: s.file, Overrides: s.over}
	if s.file == "" {
		return src, nil
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		return src, fmt.Errorf("config: %w", err)
	}
	src.Data = append([]byte{}, data...) // an empty file is a file
	return src, nil
}

// load gives the resolved settings, and logs their warnings.
func (s *settings) load(log *slog.Logger) (config.Config, error) {
	src, err := s.source()
	if err != nil {
		return config.Config{}, err
	}
	c, warnings, err := config.Load(src)
	for _, w := range warnings {
		log.Warn("setting", "at", w.In(s.file))
	}
	return c, err
}
