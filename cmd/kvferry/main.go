// Command kvferry serves LLMs with prefill and decode in different processes, and
// ferries the KV cache between them.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:           "kvferry",
		Short:         "Disaggregated LLM serving: prefill here, decode there, the KV cache ferried between",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		upCommand(), routerCommand(), prefillCommand(), decodeCommand(), serveCommand(),
		askCommand(), checkCommand(), doctorCommand(), benchCommand(), simCommand(), versionCommand(),
	)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "kvferry:", err)
		os.Exit(1)
	}
}
