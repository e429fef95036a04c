package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"kvferry/node/e2etest"
)

// TestOpenAIClient runs OpenAI's own client for Python against `up`: it lists models,
// completes, chats, streams, leaves, and meets errors of the classes that its users catch.
// KVFERRY_PYTHON is an interpreter that has the client.
//
// req: SERVE-01, SERVE-03
func TestOpenAIClient(t *testing.T) {
	python := os.Getenv("KVFERRY_PYTHON")
	if python == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("KVFERRY_PYTHON is not set")
		}
		t.Skip("KVFERRY_PYTHON names no Python interpreter with the openai package")
	}
	c := up(t)
	cmd := exec.Command(python, "testdata/openai_client.py", c.URL, prose)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var texts map[string]string
	if err := json.Unmarshal(out, &texts); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	params := map[string]any{"max_tokens": 24, "temperature": 0, "ignore_eos": true}
	completion := aggregated.Answer(t, e2etest.Config(), e2etest.Request{Prompt: prose, Params: params}).Text
	chat := aggregated.Answer(t, e2etest.Config(), e2etest.Request{
		Messages: []e2etest.Message{{Role: "user", Content: prose}}, Params: params,
	}).Text
	for name, want := range map[string]string{
		"completion": completion, "completion_stream": completion, "chat": chat, "chat_stream": chat,
	} {
		if texts[name] != want {
			t.Errorf("%s is %q, want %q", name, texts[name], want)
		}
	}
	c.awaitIdle(t)
}
