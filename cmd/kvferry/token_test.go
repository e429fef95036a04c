package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kvferry/models"
	"kvferry/node"
	"kvferry/node/e2etest"
)

// TestUpSharesASecret: all processes of one `up` have the same token, another one than the next
// `up`'s, and nothing that others can read has it in it: no argument, no log.
func TestUpSharesASecret(t *testing.T) {
	a, b := secretOf(t), secretOf(t, "--token=of-an-operator")
	if len(a) < 26 || a == b || b != "of-an-operator" {
		t.Errorf("tokens of %d and %d characters, equal: %t", len(a), len(b), a == b)
	}
}

// secretOf starts `up` without a token in the environment and gives the token of its children.
func secretOf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"up", "--listen=127.0.0.1:0", "--log-level=debug"}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), isToken)
	p := begin(t, cmd)
	c := &cluster{p, e2etest.NewClient(p.ready(t), models.TinyName)}
	defer c.Close()
	c.awaitIdle(t)
	c.same(t, short(1))
	var token string
	for role, pids := range c.children(t) {
		proc := filepath.Join("/proc", fmt.Sprint(pids[0]))
		env, err := os.ReadFile(filepath.Join(proc, "environ"))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Split(string(env), "\x00")
		i := slices.IndexFunc(all, isToken)
		if i < 0 {
			t.Fatalf("%s has no token", role)
		}
		_, its, _ := strings.Cut(all[i], "=")
		if token != "" && its != token {
			t.Errorf("%s has another token", role)
		}
		token = its
		if argv, err := os.ReadFile(filepath.Join(proc, "cmdline")); err != nil || strings.Contains(string(argv), token) {
			t.Errorf("%s has the token in its arguments: %v", role, err)
		}
	}
	if p.err.String() == "" || strings.Contains(p.err.String()+p.out.String(), token) {
		t.Errorf("the token is logged, or nothing is:\n%s", p.err.String())
	}
	return token
}

func isToken(s string) bool { return strings.HasPrefix(s, node.TokenVariable+"=") }

// TestNoTokenIsSaid: a process that was given neither a token nor trust serves, and says at its
// start what it will not do; one that has either says nothing.
func TestNoTokenIsSaid(t *testing.T) {
	router := []string{"router", "--prefill=127.0.0.1:1", "--decode=127.0.0.1:2"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"prefill"}, "this engine refuses every leg"},
		{[]string{"decode"}, "this engine refuses every leg"},
		{router, "engines will refuse this router's legs"},
		{[]string{"decode", "--token=x"}, ""},
		{[]string{"decode", "--trust-network"}, ""},
		{append(router, "--trust-network"), ""},
		{[]string{"serve"}, ""},
	} {
		cmd := exec.Command(binary, append(c.args, "--listen=127.0.0.1:0")...)
		cmd.Env = slices.DeleteFunc(os.Environ(), isToken)
		p := begin(t, cmd)
		p.ready(t)
		p.signal(syscall.SIGTERM)
		p.end(t)
		log := p.err.String()
		if said := strings.Contains(log, "token"); said != (c.says != "") || !strings.Contains(log, c.says) {
			t.Errorf("%q says %q, want %q", c.args, log, c.says)
		}
	}
}

// TestTokenMistakes: a token that is none is refused, and not repeated; help does not show the
// environment's.
func TestTokenMistakes(t *testing.T) {
	for _, args := range [][]string{
		{"prefill", "--token="},
		{"decode", "--token=hush hush"},
		{"up", "--token=hush\nhush"},
		{"router", "--prefill=127.0.0.1:1", "--decode=127.0.0.1:2", "--token=hush hush"},
	} {
		out, errs, status := execute(t, args...)
		if status != 1 || out != "" || !oneLine(errs) || !strings.Contains(errs, "token: want 1 to 256 visible") || strings.Contains(errs, "hush") {
			t.Errorf("%q: status %d, %q, %q", args, status, out, errs)
		}
	}
	for _, command := range []string{"up", "prefill", "decode", "router"} {
		help, _, _ := execute(t, command, "--help")
		if !strings.Contains(help, "--token") || !strings.Contains(help, node.TokenVariable) || strings.Contains(help, os.Getenv(node.TokenVariable)) {
			t.Errorf("%s:\n%s", command, help)
		}
	}
}
