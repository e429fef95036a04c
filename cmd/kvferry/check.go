package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kvferry/config"
)

func checkCommand() *cobra.Command {
	s := settings{use: config.Check}
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Print what a configuration file comes to, or everything that is wrong with it",
		Long: `Print what a configuration file comes to, with every default, or everything that is wrong with
it: one line a fault, as FILE:LINE:COLUMN: key: message, on standard error with exit status 1.
Flags go before the file, as they do for the command that will use it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.file = args[0]
			return s.check(cmd)
		},
	}
	styleFlag(cmd.Flags(), &s.over)
	clusterFlags(cmd.Flags(), &s.over, false)
	return cmd
}

func (s *settings) check(cmd *cobra.Command) error {
	src, err := s.source()
	if err != nil {
		return err
	}
	c, warnings, err := config.Load(src)
	var wrong *config.Error
	if errors.As(err, &wrong) {
		for _, line := range wrong.Lines() {
			fmt.Fprintln(cmd.ErrOrStderr(), line)
		}
		return fmt.Errorf("%s: faults: %d", s.file, len(wrong.Faults))
	}
	for _, w := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w.In(s.file))
	}
	out, err := c.YAML()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(out)
	return err
}
