//go:build (linux || darwin) && (amd64 || arm64) && llamacpp

package llamacpp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
)

// firstPart is how the first of a model's several files is named.
var firstPart = regexp.MustCompile(`^(.*-)00001(-of-(\d{5})\.gguf)$`)

// files are all files of the model whose first one is named.
func files(path string) []string {
	m := firstPart.FindStringSubmatch(path)
	if m == nil {
		return []string{path}
	}
	n, _ := strconv.Atoi(m[3])
	all := []string{path}
	for i := 2; i <= n; i++ {
		all = append(all, fmt.Sprintf("%s%05d%s", m[1], i, m[2]))
	}
	return all
}

// fileHash is over all bytes of a model: its weights, and its tokenizer.
func fileHash(path string) (string, error) {
	h := sha256.New()
	for _, name := range files(path) {
		if err := copyFile(h, name); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func copyFile(to io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}
