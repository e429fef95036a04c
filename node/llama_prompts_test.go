//go:build linux && amd64 && llamacpp

package node_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// harbour is of what prompts for real models are made. Every word is a token or two.
var harbour = struct{ who, did, what, where []string }{
	who: strings.Fields("pilot captain cook clerk widow sailor teacher doctor painter boy girl keeper stranger porter merchant"),
	did: strings.Fields("carried counted lost found sold painted mended forgot described weighed opened closed followed watched praised"),
	what: []string{
		"seven crates of oranges", "a letter with a red seal", "the old brass lamp", "two maps of the coast", "a box of nails",
		"the key of the warehouse", "a basket of bread", "the book of tides", "three coats", "a clock that had stopped", "the green boat",
	},
	where: []string{
		"at the north pier", "behind the customs house", "on the upper deck", "near the lighthouse", "in the rain", "before the bell rang",
		"under the bridge", "after supper", "by the sea wall", "without a word", "in the captain's room", "while the tide was low",
	},
}

// story is about n tokens of text, another one for each number.
func story(number, n int) string {
	r := rand.New(rand.NewPCG(7, uint64(number)))
	of := func(list []string) string { return list[r.IntN(len(list))] }
	words := strings.Fields(fmt.Sprintf("Log %d:", number))
	for len(words) < n {
		s := fmt.Sprintf("the %s %s %s %s.", of(harbour.who), of(harbour.did), of(harbour.what), of(harbour.where))
		words = append(words, strings.Fields(strings.ToUpper(s[:1])+s[1:])...)
	}
	// A full stop is a token of its own, of ten words or so.
	return strings.Join(words[:max(4, n*10/11-1)], " ")
}

// stories are n prompts of 10 tokens to most, each longer than the one before by the same factor.
func stories(n, most int) []string {
	out := make([]string, n)
	for i := range out {
		share := float64(i) / float64(max(1, n-1))
		out[i] = story(i, int(math.Round(10*math.Pow(float64(most)/10, share))))
	}
	return out
}
