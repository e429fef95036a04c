package router

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kvferry/openai"
)

func chatOf(texts ...string) Conversation {
	r := &openai.Request{Chat: true, Model: "m"}
	for _, s := range texts {
		r.Messages = append(r.Messages, openai.Message{Role: "user", Content: s})
	}
	return ConversationOf(r)
}

func textOf(s string) Conversation { return ConversationOf(&openai.Request{Model: "m", Prompt: s}) }

func turnOf(n int) Turn {
	return Turn{Decode: n, Life: fmt.Sprint("life-", n), Handle: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// A chat's next turn finds the one before, by whatever length; another chat does not.
// req: LEASE-20
func TestTurnIsFound(t *testing.T) {
	for _, n := range []int{0, 1, piece - 3, piece - 2, piece - 1, 2*piece - 2, 5 * piece} {
		first := strings.Repeat("x", n)
		turns := NewTurns(4)
		turns.Put(chatOf(first), turnOf(1))
		for _, other := range []Conversation{
			chatOf(first+"y", "answer", "more"), chatOf("y", "answer", "more"), chatOf(first[:n/2] + "y"),
			ConversationOf(&openai.Request{Chat: true, Model: "m2", Messages: []openai.Message{{Content: first}, {Content: "a"}}}),
		} {
			if turn, ok := turns.Take(other); ok {
				t.Errorf("%d bytes: another conversation got %+v", n, turn)
			}
		}
		turn, ok := turns.Take(chatOf(first, "the answer", "the next question"))
		if !ok || turn.Decode != 1 || turn.Life != "life-1" || string(turn.Handle) != `{"n":1}` {
			t.Errorf("%d bytes: got %+v, %v", n, turn, ok)
		}
		// It is used once.
		if turn, ok := turns.Take(chatOf(first, "the answer", "the next question")); ok || turns.Len() != 0 {
			t.Errorf("%d bytes: got %+v again, %d are left", n, turn, turns.Len())
		}
	}
}

// The longest beginning that is known is taken, and then the next shorter one.
// req: LEASE-20
func TestLongestTurnIsTaken(t *testing.T) {
	turns := NewTurns(9)
	whole := strings.Repeat("0123456789", 30)
	for i, n := range []int{10, 63, 64, 65, 128, 200, 290} {
		turns.Put(textOf(whole[:n]), turnOf(i))
	}
	for want := 6; want >= 0; want-- {
		if got, ok := turns.Take(textOf(whole)); !ok || got.Decode != want {
			t.Errorf("got %+v, %v, want turn %d", got, ok, want)
		}
	}
}

// Token IDs are no text, whatever their bytes.
func TestTokensAreNoText(t *testing.T) {
	tokens := func(ids ...int32) Conversation {
		return ConversationOf(&openai.Request{Model: "m", PromptTokens: ids})
	}
	turns := NewTurns(9)
	turns.Put(tokens(0x61626364, 7), turnOf(1))
	if _, ok := turns.Take(textOf("dcba\x07\x00\x00\x00 and more")); ok {
		t.Error("a text found the turn of tokens")
	}
	if _, ok := turns.Take(tokens(0x61626364, 8, 7)); ok {
		t.Error("other tokens found the turn")
	}
	if got, ok := turns.Take(tokens(0x61626364, 7, 8)); !ok || got.Decode != 1 {
		t.Errorf("got %+v, %v", got, ok)
	}
}

// What is least recently heard of goes first, and handles take no more than their share.
func TestTurnsAreBounded(t *testing.T) {
	turns := NewTurns(3)
	for i := range 4 {
		turns.Put(textOf(fmt.Sprint("conversation ", i)), turnOf(i))
	}
	if _, ok := turns.Take(textOf("conversation 0 goes on")); ok || turns.Len() != 3 {
		t.Errorf("the oldest is still there, of %d", turns.Len())
	}
	big := Turn{Handle: make([]byte, maxTurnBytes/2)}
	for i := range 3 {
		turns.Put(textOf(fmt.Sprint("big ", i)), big)
	}
	if turns.Len() != 2 || turns.bytes != maxTurnBytes {
		t.Errorf("%d turns of %d bytes", turns.Len(), turns.bytes)
	}
	turns.Put(textOf("too big"), Turn{Handle: make([]byte, maxTurnBytes+1)})
	if turns.Len() != 2 {
		t.Errorf("%d turns", turns.Len())
	}
	none := NewTurns(0)
	none.Put(textOf("x"), turnOf(1))
	if none.Len() != 0 {
		t.Error("a turn is remembered where none may be")
	}
}

// TestTurnsAgainstAList: whatever is put and taken, it is as if all were in a list, searched from
// end to end, of which the oldest are dropped; and what is dropped leaves nothing behind.
// req: LEASE-20
func TestTurnsAgainstAList(t *testing.T) {
	type entry struct {
		text string
		turn Turn
	}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(0, 4).Draw(t, "most")
		turns := NewTurns(most)
		var list []entry // the newest last
		drop := func(i int) { list = append(list[:i:i], list[i+1:]...) }
		text := rapid.Custom(func(t *rapid.T) string {
			a := strings.Repeat("a", rapid.SampledFrom([]int{1, 2, 63, 64, 65, 127, 128, 130}).Draw(t, "as"))
			return a + rapid.SampledFrom([]string{"", "b", "bb"}).Draw(t, "bs")
		})
		for i := range 30 {
			s := text.Draw(t, "text")
			if rapid.Bool().Draw(t, "put") {
				for j, e := range list {
					if e.text == s {
						drop(j)
						break
					}
				}
				list = append(list, entry{s, turnOf(i)})
				if len(list) > most {
					drop(0)
				}
				turns.Put(textOf(s), turnOf(i))
			} else {
				best := -1
				for j, e := range list {
					if strings.HasPrefix(s, e.text) && (best < 0 || len(e.text) > len(list[best].text)) {
						best = j
					}
				}
				got, ok := turns.Take(textOf(s))
				if ok != (best >= 0) || ok && got.Decode != list[best].turn.Decode {
					t.Fatalf("%q: got %+v, %v, want entry %d of %+v", s, got, ok, best, list)
				}
				if ok {
					drop(best)
				}
			}
			size := 0
			for _, e := range list {
				size += len(e.turn.Handle)
			}
			if turns.Len() != len(list) || turns.bytes != size || len(turns.known) != len(list) || len(turns.tails) > len(list) {
				t.Fatalf("%d turns of %d bytes, %d keys, %d tails; want %d of %d", turns.Len(), turns.bytes, len(turns.known), len(turns.tails), len(list), size)
			}
		}
	})
}

// BenchmarkConversation is a prompt of 32 KiB: its chain, and its search among 10,000 turns.
func BenchmarkConversation(b *testing.B) {
	turns := NewTurns(10000)
	for i := range 10000 {
		turns.Put(textOf(fmt.Sprint(i, strings.Repeat("x", i%piece))), turnOf(i))
	}
	r := &openai.Request{Model: "m", Prompt: strings.Repeat("0123456789abcdef", 2048)}
	for b.Loop() {
		turns.Take(ConversationOf(r))
	}
}
