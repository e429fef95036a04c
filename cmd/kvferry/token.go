package main

import (
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"kvferry/node"
)

// access is what a process of a deployment knows the others by: the token that all of them share,
// or trust in whoever can reach it.
type access struct {
	token string
	trust bool
}

// tokenFlag takes the token. Its default is the environment's, which the help must not show.
func (a *access) tokenFlag(f *pflag.FlagSet) {
	f.StringVar(&a.token, "token", "", "secret that all processes of a deployment share; better in the environment, as "+node.TokenVariable)
}

func (a *access) trustFlag(f *pflag.FlagSet, usage string) {
	f.BoolVar(&a.trust, "trust-network", false, usage)
}

// resolve takes the environment's token where no flag gave one, and checks it. Nothing that is
// said of a token has it in it.
func (a access) resolve(f *pflag.FlagSet) (access, error) {
	if !f.Changed("token") {
		a.token = os.Getenv(node.TokenVariable)
		if a.token == "" {
			return a, nil
		}
	}
	return a, node.CheckToken(a.token)
}

// warn tells of a process that nobody, or only whom trust opens a door, will deal with.
func (a access) warn(log *slog.Logger, message string) {
	if a.token == "" && !a.trust {
		log.Warn(message, "want", "--token, "+node.TokenVariable+" or --trust-network")
	}
}
