package router

import (
	"strings"
	"testing"
)

// case: 12
func TestConfig(t *testing.T) {
	got, err := Config{}.Resolve()
	want := Config{ScheduleStyle: GenerationFirst, PrefillFailurePolicy: PolicyFail, PrefillTries: 2, LocalCap: 4}
	if err != nil || got != want {
		t.Errorf("left out: %+v (%v), want %+v", got, err, want)
	}
	whole := Config{ScheduleStyle: ContextFirst, PrefillFailurePolicy: PolicyLocal, PrefillTries: 1, LocalCap: 9, Turns: 7}
	if got, err := whole.Resolve(); err != nil || got != whole {
		t.Errorf("given: %+v (%v), want %+v", got, err, whole)
	}
	for _, c := range []struct {
		cfg  Config
		says string
	}{
		{Config{ScheduleStyle: "both"}, `schedule style "both"`},
		{Config{PrefillFailurePolicy: "retry"}, `prefill failure policy "retry"`},
		{Config{PrefillTries: -1}, "prefill tries -1"},
		{Config{LocalCap: -2}, "local cap -2"},
		{Config{Turns: -3}, "turns -3"},
	} {
		if _, err := c.cfg.Resolve(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %s", c.cfg, err, c.says)
		}
	}
}
