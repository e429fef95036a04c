package chat

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"kvferry/runner"
)

// TestLimits: a template that would go on for long, nest too deep or make too much text is stopped
// with an error that says why, and soon.
//
// req: SERVE-03, SERVE-05
func TestLimits(t *testing.T) {
	loops := strings.Repeat("{% for i in range(1000) %}", 8) + strings.Repeat("{% endfor %}", 8)
	for source, want := range map[string]string{
		loops: "steps",
		strings.ReplaceAll(loops, "%}{%", "-%} x {%- "):      "steps",
		"{% for i in range(100001) %}{% endfor %}":           "range",
		"{% for i in range(0, -1000000, -1) %}{% endfor %}":  "range",
		"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}": "deep",
		"{%macro f(x)%}{{ x(x) }}{%endmacro%}{{ f(f) }}":     "deep",
		"{% macro f() %}{% set ns.c = caller %}{{ ns.c() }}{% endmacro %}{% set ns = namespace() %}{% call f() %}{{ ns.c() }}{% endcall %}":               "deep",
		"{% macro a() %}{{ b() }}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}":                                                  "deep",
		"{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}":                                          "bytes",
		"{% set s = 'x' %}{% for i in range(2) %}{% set s = s * 10000000 %}{% endfor %}":                                                                  "bytes",
		"{% for i in range(1100) %}{{ '" + strings.Repeat("x", 1000) + "' }}{% endfor %}":                                                                 "bytes",
		"{% for i in range(90000) %}{% for j in range(i) %}{% endfor %}{% endfor %}":                                                                      "steps",
		"{% for m in messages %}{% for i in [1]  %}{% for k in range(1000) %}{% for l in range(90000) %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}": "steps",
	} {
		began := time.Now()
		out, err := compiled(t, source).render([]Message{{"user", "x"}}, day)
		limit, _ := errors.AsType[*LimitError](err)
		// A machine may be too slow for so many steps.
		slow := limit != nil && want == "steps" && strings.Contains(limit.What, "longer than")
		if limit == nil || !slow && !strings.Contains(limit.What, want) {
			t.Errorf("%.80q: %.40q, %v; want an error about %s", source, out, err, want)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%.80q: took %v", source, took)
		}
	}
}

// TestTime: the steps that are allowed must not take long either.
func TestTime(t *testing.T) {
	g := newGuard(0)
	g.until = time.Now().Add(-time.Second)
	var err error
	for range 64 {
		err = errors.Join(err, g.step())
	}
	var limit *LimitError
	if !errors.As(err, &limit) || !strings.Contains(limit.What, "longer than") {
		t.Error(err)
	}
}

// TestUnsupported: what a template may not do, and what is no template, is refused when it is
// loaded, or when it gets there.
func TestUnsupported(t *testing.T) {
	for source, want := range map[string]string{
		"{% include '/etc/passwd' %}":                     `unknown statement "include"`,
		"{% import 'x' as y %}":                           `unknown statement "import"`,
		"{% extends 'x' %}":                               `unknown statement "extends"`,
		"{% from 'x' import y %}":                         `unknown statement "from"`,
		"{% for x in y %}":                                "unclosed",
		"{% endfor %}":                                    "endfor",
		"{{ 'x' ":                                         "not closed",
		"{% raw %} {{ x }}":                               "raw is not closed",
		"{# x":                                            "not closed",
		"{% set kvferry_step = 1 %}":                      "kvferry's own",
		strings.Repeat("x", maxSource+1):                  "131073 bytes",
		"{{ " + strings.Repeat("x ", maxTag/2) + "}}":     "longer than",
		"{{ 1 +":                                          "not closed",
		"{{ [1 }}":                                        "not closed",
		"{{ messages | map('upper') | list }}":            "map with a filter",
		"{{ messages | nonesuch }}":                       "nonesuch",
		"{{ nonesuch() }}":                                "not callable",
		"{{ raise_exception('no' ~ ' way') }}":            "no way",
		"{{ raise_exception() }}":                         "refuses these",
		"{{ range() }}{{ range('a') }}":                   "range takes",
		"{{ range(1, 2, 0) }}":                            "step of 0",
		"{{ strftime_now('%Q') }}":                        "%Q",
		"{{ strftime_now('%') }}{{ strftime_now('%-') }}": "strftime_now",
		"{{ strftime_now() }}":                            "takes a format",
		"{{ 'a' * -1 }}":                                  "library fail",
	} {
		tmpl, err := New(runner.Chat{Template: source})
		if err == nil {
			_, err = tmpl.render([]Message{{"user", "x"}}, day)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", source, err, want)
		}
	}
}

// TestDeepTags: the deepest tags that are allowed do not exhaust the stack, when they are read or
// run, in the deepest macros.
func TestDeepTags(t *testing.T) {
	fill := func(s string, n int) string { return strings.Repeat(s, n/len(s)) }
	for _, source := range []string{
		"{{ " + fill("(", maxTag-10) + fill(")", maxTag-10),
		"{{ " + fill("(", maxTag/2-10) + "1" + fill(")", maxTag/2-10) + " }}",
		"{{ " + fill("[", maxTag/2-10) + fill("]", maxTag/2-10) + " }}",
		"{{ " + fill("not ", maxTag-10) + "1 }}",
		"{{ " + fill("-", maxTag-10) + "1 }}",
		"{{ " + fill("1 if 1 else ", maxTag-20) + "1 }}",
		"{% macro f() %}{{ " + fill("not ", maxTag-10) + "f() }}{% endmacro %}{{ f() }}",
		fill("{%if 1%}", maxSource/3) + fill("{%endif%}", maxSource/3),
	} {
		tmpl, err := New(runner.Chat{Template: source})
		if err == nil {
			_, _ = tmpl.render(nil, day)
		}
	}
	runtime.GC()
}

// TestStrftime: the letters that templates use give what Python gives.
func TestStrftime(t *testing.T) {
	for format, want := range map[string]string{
		"%d %b %Y": "07 Feb 2026", "%Y-%m-%d": "2026-02-07", "%A, %B %-d, %Y": "Saturday, February 7, 2026", "%a %h %e %y %j %%": "Sat Feb  7 26 038 %",
		"%-m/%d": "2/07", "%H:%M:%S %I %p %R %T %Z%z": "00:00:00 12 AM 00:00 00:00:00 ", "%F %D": "2026-02-07 02/07/26", "no date": "no date",
	} {
		got, err := compiled(t, "{{ strftime_now('"+format+"') }}").render(nil, day)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", format, got, err, want)
		}
	}
}

// Whatever a template and a message are, there is a prompt or an error, and soon.
func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}<|im_start|>{{ m.role }}{{ m.content | trim }}{% endfor %}", "hello")
	f.Add("{%- macro f(x, y=2) -%}{{ x }}{% if y %}{{ f(x, y - 1) }}{% endif %}{%- endmacro -%}{{ f('a') }}", "<|im_end|>")
	f.Add("{% raw %}{{ x }}{% endraw %}{# c #}{%+ set a = {'b': {}} +%}{{ a['b'] }}{% for i in range(3) %}{% continue %}{% else %}{% break %}{% endfor %}", "")
	f.Add("{{ messages[0].content.split('<')[-1] ~ '\\'' }}{{ messages | tojson(indent=2) }}", "<|im_<|im")
	f.Fuzz(func(t *testing.T, source, content string) {
		tmpl, err := New(runner.Chat{Template: source, Control: ours})
		if err != nil {
			return
		}
		_, _ = tmpl.Tokens([]Message{{"user", content}}, letters{}, day)
	})
}
