package prometheus

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/dashboards"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
)

// exprs are all queries of panels, with values for Grafana's variables, and all
// rules.
func exprs() map[string]string {
	all := make(map[string]string)
	for _, d := range dashboards.All() {
		for _, p := range d.Panels() {
			for _, q := range p.Queries {
				all[d.Name+"/"+q.Name] = expand(d.Expr(q), ".+", db, "1m")
			}
		}
	}
	for _, r := range dashboards.Recordings() {
		all[r.Name] = r.Expr()
	}
	for _, a := range dashboards.Alerts() {
		all[a.Name] = a.Expr()
	}
	return all
}

// expand does what Grafana does: $job is a pattern; $class is one
// value, written into a string.
func expand(expr, job, class, window string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(class)
	return strings.NewReplacer("$__rate_interval", window, "$__range", window, "$job", job, "$class", escaped).Replace(expr)
}

// Each metric that a query selects is measured, by a name with the right ending,
// and each label that it is selected or grouped by is one of its labels.
func TestPrometheusReadsEveryQuery(t *testing.T) {
	of := parser.NewParser(parser.Options{})
	for whose, expr := range exprs() {
		tree, err := of.ParseExpr(expr)
		require.NoError(t, err, "%s: %s", whose, expr)
		var selected []string // labels of all selectors
		parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			if selector.Name == "" {
				selected = append(selected, "metric") // any metric; label_replace makes this of its name
				return nil
			}
			has := measuredLabels(selector.Name)
			require.NotEmpty(t, has, "%s: nothing measures %s", whose, selector.Name)
			for _, m := range selector.LabelMatchers {
				if m.Name != "__name__" {
					require.Contains(t, has, m.Name, "%s: %s", whose, selector.Name)
				}
			}
			selected = append(selected, has...)
			return nil
		})
		parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
			if a, ok := node.(*parser.AggregateExpr); ok {
				for _, label := range a.Grouping {
					require.Contains(t, selected, label, "%s: %s", whose, expr)
				}
			}
			return nil
		})
	}
}

// measuredLabels returns the labels of a metric, nil if there is none of that name.
func measuredLabels(name string) []string {
	for _, i := range metrics.Instruments() {
		own := append(i.Labels(), "job", "instance")
		base := i.Prometheus()
		switch {
		case i.Kind == metrics.Histogram && name == base+"_bucket":
			return append(own, "le")
		case i.Kind == metrics.Histogram && slices.Contains([]string{base + "_sum", base + "_count"}, name),
			i.Kind != metrics.Histogram && name == base:
			return own
		}
	}
	return nil
}
