package telemetry_test

import (
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kvferry/router/proxy"
)

const docsFile = "../docs/metrics.md"

// metric is one row of the documentation, or what a process really exports.
type metric struct{ name, kind, labels, help string }

// documented are the rows of the tables: name, type, labels, what it is, and what others call it.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]metric{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 6 || !strings.HasPrefix(cells[1], " `kvferry_") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "`", ""))
		}
		m := metric{cells[1], cells[2], cells[3], cells[4]}
		if _, twice := out[m.name]; twice {
			t.Errorf("%s is there twice", m.name)
		}
		out[m.name] = m
	}
	return out
}

var labelName = regexp.MustCompile(`([a-z_]+)="`)

// exported are the metrics of an engine and of a router. A router's counters of requests begin
// with the first one.
func exported(t *testing.T) map[string]metric {
	t.Helper()
	router, err := proxy.New(proxy.Config{Prefill: []string{"p:1"}, Decode: []string{"d:1"}})
	if err != nil {
		t.Fatal(err)
	}
	handler := router.Handler()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/completions", strings.NewReader("{}")))
	out := map[string]metric{}
	engine, engineTypes, engineHelps := scrape(t, newEngine().Handler())
	routed, routerTypes, routerHelps := scrape(t, handler)
	maps.Copy(engine, routed)
	maps.Copy(engineTypes, routerTypes)
	maps.Copy(engineHelps, routerHelps)
	for name, kind := range engineTypes {
		if !strings.HasPrefix(name, "kvferry_") {
			continue
		}
		m := metric{name: name, kind: kind, help: strings.TrimSuffix(engineHelps[name], ".")}
		for series := range engine {
			base, labels, _ := strings.Cut(series, "{")
			if kind == "histogram" {
				base = strings.TrimSuffix(base, "_sum")
			}
			if base == name {
				m.labels = labelsOf(labels)
			}
		}
		out[name] = m
	}
	return out
}

func labelsOf(text string) string {
	var names []string
	for _, found := range labelName.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Every metric of the documentation is exported as it says, and every one that is exported is
// in the documentation.
func TestDocsAreCurrent(t *testing.T) {
	want, got := exported(t), documented(t)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		m := want[name]
		if got[name] != m {
			t.Errorf("%s should say\n| `%s` | %s | %s | %s |\nnot %+v", docsFile, m.name, m.kind, m.labels, m.help, got[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s has %s, which nobody exports", docsFile, name)
		}
	}
	if len(want) < 30 {
		t.Errorf("only %d metrics were found", len(want))
	}
}

// vllm is what vLLM's NIXL connector exports; dashboards have these names.
var vllm = []string{
	"xfer_time_seconds", "post_time_seconds", "bytes_transferred", "num_descriptors", "num_failed_transfers_total",
	"num_failed_notifications_total", "num_kv_expired_reqs_total", "num_notifications_after_expiry_total",
}

// One prefix for another is all that a dashboard for vLLM has to change.
func TestNamesAreVLLMs(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	have := exported(t)
	for _, name := range vllm {
		if _, ok := have["kvferry_kv_"+name]; !ok {
			t.Errorf("kvferry_kv_%s is not exported", name)
		}
		row := regexp.MustCompile("(?m)^\\| `kvferry_kv_" + name + "` .*\\| `vllm:nixl_" + name + "` \\|")
		if !row.Match(text) {
			t.Errorf("%s does not say that it is vllm:nixl_%s", docsFile, name)
		}
	}
}
