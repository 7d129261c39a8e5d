package dashboards

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/metrics"
)

var (
	metricName = regexp.MustCompile(`\blockkeeper_[a-z0-9_]+`)
	matcher    = regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`)
	selector   = regexp.MustCompile(`(\blockkeeper_[a-z0-9_]+)\{([^}]*)\}`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
	recorded   = regexp.MustCompile(`\b\w+:lockkeeper_\w+:\w+`)
)

// exprs are all that is asked, by a name for people.
func exprs() map[string]string {
	all := make(map[string]string)
	for _, d := range All() {
		for _, p := range d.Panels() {
			for _, q := range p.Queries {
				all[d.Name+"/"+q.Name] = d.Expr(q)
			}
		}
		for _, v := range d.variables() {
			if v.Definition != "" {
				all[d.Name+"/$"+v.Name] = v.Definition
			}
		}
	}
	for _, r := range Recordings() {
		all[r.Name] = r.Expr()
	}
	for _, a := range Alerts() {
		all[a.Name] = a.Expr()
	}
	return all
}

// measured finds the instrument of a metric that an expression names.
func measured(instruments []metrics.Instrument, name string) (metrics.Instrument, bool) {
	for _, i := range instruments {
		if i.Prometheus() == name && i.Kind != metrics.Histogram {
			return i, true
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if i.Kind == metrics.Histogram && i.Prometheus()+suffix == name {
				return i, true
			}
		}
	}
	return metrics.Instrument{}, false
}

// problems says which metrics and labels of the expressions there are not.
func problems(instruments []metrics.Instrument, exprs map[string]string) (all []string) {
	for whose, expr := range exprs {
		known := []string{"job", "instance", "le", "metric", "__name__", "otel_metric_overflow", "lock_class"}
		if metricName.MatchString(expr) && !strings.Contains(expr, "__name__") {
			known = known[:3]
		}
		for _, name := range metricName.FindAllString(recorded.ReplaceAllString(expr, ""), -1) {
			if strings.Contains(expr, `"`+name+`.+"`) {
				continue // a pattern
			}
			i, ok := measured(instruments, name)
			if !ok {
				all = append(all, fmt.Sprintf("%s: there is no metric %s", whose, name))
			}
			known = append(known, i.Labels()...)
		}
		for _, s := range selector.FindAllStringSubmatch(recorded.ReplaceAllString(expr, ""), -1) {
			i, _ := measured(instruments, s[1])
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(append(i.Labels(), known[:3]...), m[1]) {
					all = append(all, fmt.Sprintf("%s: %s has no label %s", whose, s[1], m[1]))
				}
			}
		}
		var used []string
		for _, m := range matcher.FindAllStringSubmatch(expr, -1) {
			used = append(used, m[1])
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			used = append(used, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
		}
		for _, label := range used {
			if !slices.Contains(known, label) {
				all = append(all, fmt.Sprintf("%s: none of its metrics has a label %s", whose, label))
			}
		}
	}
	return all
}

func TestWhatQueriesNameIsMeasured(t *testing.T) {
	require.Empty(t, problems(metrics.Instruments(), exprs()))

	const waits, lost = `lockkeeper_lock_wait_duration_seconds_count{outcome="acquired"}`, `lockkeeper_session_expirations_total`
	require.Empty(t, problems(metrics.Instruments(), map[string]string{"ratio": lost + "/" + waits}))
	require.Len(t, problems(metrics.Instruments(), map[string]string{"ratio": lost + `{outcome="acquired"}/` + waits}), 1, "a label of another metric")
}

// A renamed metric, or a renamed label, fails this test.
func TestRenamedMetricIsNoticed(t *testing.T) {
	all := exprs()
	var unnoticed []string
	for n, i := range metrics.Instruments() {
		if notShown()[i.Name] != "" {
			continue
		}
		asked := maps.Clone(all)
		maps.DeleteFunc(asked, func(_, expr string) bool { return !strings.Contains(expr, i.Prometheus()) })
		renamed := metrics.Instruments()
		renamed[n].Name += ".anew"
		require.NotEmpty(t, problems(renamed, asked), "%s was renamed", i.Name)
		for l, label := range i.Labels() {
			if notAsked()[i.Name+" "+label] != "" {
				continue
			}
			renamed := metrics.Instruments()
			renamed[n].Attributes = slices.Clone(i.Attributes)
			renamed[n].Attributes[l] += ".anew"
			if len(problems(renamed, asked)) == 0 {
				unnoticed = append(unnoticed, i.Name+" "+label)
			}
		}
	}
	require.Empty(t, unnoticed, "labels that were renamed")
}

// notShown are instruments that no dashboard shows, and why.
func notShown() map[string]string { return map[string]string{} }

// notAsked are labels that no query names, and why.
func notAsked() map[string]string { return map[string]string{} }

func TestEverythingMeasuredIsShown(t *testing.T) {
	shown := make(map[string]bool)
	for _, d := range All() {
		for _, p := range d.Panels() {
			for _, q := range p.Queries {
				for _, name := range metricName.FindAllString(d.Expr(q), -1) {
					i, _ := measured(metrics.Instruments(), name)
					shown[i.Name] = true
				}
			}
		}
	}
	for _, i := range metrics.Instruments() {
		require.NotEqual(t, shown[i.Name], notShown()[i.Name] != "", "%s: on a dashboard, or not for a reason", i.Name)
	}
}
