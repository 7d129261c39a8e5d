package dashboards

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A proof is the input of promtool for one rule: series at which it fires, and
// series just within the bounds, at which it does not. A recording rule has only
// series of the first kind.
type proof struct {
	bad, good series
	at        time.Duration
	labels    labels
	value     string // as the summary says it, or as it is recorded
}

type (
	series map[string]string // values in promtool's notation, one each minute
	labels map[string]string
)

type (
	testsYAML struct {
		RuleFiles          []string   `yaml:"rule_files"`
		EvaluationInterval string     `yaml:"evaluation_interval"`
		Tests              []testYAML `yaml:"tests"`
	}

	testYAML struct {
		Name      string        `yaml:"name"`
		Interval  string        `yaml:"interval"`
		Input     []inputYAML   `yaml:"input_series"`
		Alerts    []alertedYAML `yaml:"alert_rule_test,omitempty"`
		Recording []promqlYAML  `yaml:"promql_expr_test,omitempty"`
	}

	inputYAML struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}

	alertedYAML struct {
		EvalTime string      `yaml:"eval_time"`
		Name     string      `yaml:"alertname"`
		Expected []firedYAML `yaml:"exp_alerts"`
	}

	firedYAML struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	}

	promqlYAML struct {
		Expr     string       `yaml:"expr"`
		EvalTime string       `yaml:"eval_time"`
		Expected []sampleYAML `yaml:"exp_samples"`
	}

	sampleYAML struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
)

// RuleTests returns the file for promtool test rules. For each alert it checks
// that it fires, with its annotations, and that it does not fire a little before;
// for each recording rule, its value.
func RuleTests() ([]byte, error) {
	out := testsYAML{RuleFiles: []string{rulesFile}, EvaluationInterval: "1m"}
	for _, r := range Recordings() {
		value, err := strconv.ParseFloat(r.proof.value, 64)
		if err != nil {
			return nil, fmt.Errorf("test of %s: %w", r.Name, err)
		}
		out.Tests = append(out.Tests, testYAML{
			Name: r.Name, Interval: "1m", Input: r.proof.good.yaml(),
			Recording: []promqlYAML{{
				Expr: r.Name, EvalTime: span(r.proof.at),
				Expected: []sampleYAML{{Labels: r.Name + r.proof.labels.String(), Value: value}},
			}},
		})
	}
	for _, a := range Alerts() {
		said := map[string]string{
			"summary": a.proof.fill(a.Summary), "description": a.proof.fill(a.Description), "runbook_url": a.Runbook(),
		}
		has := map[string]string{"severity": string(a.Severity)}
		maps.Copy(has, a.proof.labels)
		out.Tests = append(
			out.Tests,
			testYAML{Name: a.Name + " fires", Interval: "1m", Input: a.proof.bad.yaml(), Alerts: []alertedYAML{
				{EvalTime: span(a.proof.at), Name: a.Name, Expected: []firedYAML{{Labels: has, Annotations: said}}},
			}},
			testYAML{Name: a.Name + " does not fire", Interval: "1m", Input: a.proof.good.yaml(), Alerts: []alertedYAML{
				{EvalTime: span(a.proof.at), Name: a.Name, Expected: []firedYAML{}},
			}},
		)
	}
	return writeYAML(out)
}

// fill writes what Prometheus makes of a summary.
func (p proof) fill(text string) string {
	for name, value := range p.labels {
		text = strings.ReplaceAll(text, "{{ $labels."+name+" }}", value)
	}
	before, rest, found := strings.Cut(text, "{{ $value")
	if !found {
		return text
	}
	_, after, _ := strings.Cut(rest, "}}")
	return before + p.value + after
}

func (s series) yaml() (all []inputYAML) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, inputYAML{Series: name, Values: s[name]})
	}
	return all
}

func (l labels) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		all = append(all, fmt.Sprintf("%s=%q", name, l[name]))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// writtenBy is the first line of each YAML file.
const writtenBy = "# Written by lockkeeper dashboards write.\n"

func writeYAML(v any) ([]byte, error) {
	text, err := yaml.Dump(v, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	return append([]byte(writtenBy), text...), err
}
