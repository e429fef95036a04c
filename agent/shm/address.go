//go:build linux

package shm

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"kvferry/agent"
)

// scheme begins every address: shm:HOST/NAME. HOST tells hosts, network namespaces and user
// namespaces apart, so that a peer which cannot be reached is known without a try.
const scheme = "shm:"

// socketPrefix begins the names of our abstract sockets, which leave no file behind.
const socketPrefix = "@kvferry/"

// maxName is how long a name may be: a socket's whole name has 107 bytes.
const maxName = 90

// hostKey is what is equal in two processes that may share memory.
func hostKey() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("shm: %w", err)
	}
	h := sha256.New()
	h.Write(boot)
	for _, ns := range []string{"net", "user"} {
		link, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			return "", fmt.Errorf("shm: %w", err)
		}
		fmt.Fprintln(h, link)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// listenName is the name that Options.Listen asks for.
func listenName(host, listen string) (string, error) {
	if listen == "" {
		var b [8]byte
		rand.Read(b[:])
		return fmt.Sprintf("%d-%x", os.Getpid(), b), nil
	}
	if strings.HasPrefix(listen, scheme) {
		return parseAddr(host, listen)
	}
	return listen, checkName(listen)
}

// parseAddr is the name in an address, if it is of a process that we may share memory with.
func parseAddr(host, addr string) (string, error) {
	rest, ok := strings.CutPrefix(addr, scheme)
	theirs, name, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return "", fmt.Errorf("the address is no %sHOST/NAME", scheme)
	}
	if theirs != host {
		return "", fmt.Errorf("%w: it is on another host, or in another network or user namespace", agent.ErrNotLocal)
	}
	return name, checkName(name)
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the address has no name")
	case len(name) > maxName:
		return fmt.Errorf("a name of %d bytes is longer than %d", len(name), maxName)
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("the name %q has a character that it must not have", name)
	}
	return nil
}
