package node_test

import (
	"fmt"
	"os"
	"testing"

	"kvferry/node/e2etest"
)

// aggregated gives the answers that every mode must equal.
var aggregated e2etest.References

func TestMain(m *testing.M) {
	code := m.Run()
	if err := aggregated.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
