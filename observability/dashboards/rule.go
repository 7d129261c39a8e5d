package dashboards

import (
	"fmt"
	"strings"
	"time"
)

// A Severity is how soon somebody has to look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // now, also at night
	Warning  Severity = "warning"  // today
	Info     Severity = "info"     // when there is time
)

// An Alert tells people of a Query whose answer is out of bounds.
type Alert struct {
	Name        string
	Query       Query
	Window      time.Duration // how far the query looks back
	Is          string        // the bounds, such as "> 900"; empty: any answer is one too many
	For         time.Duration // how long it has to last
	Severity    Severity
	Summary     string // what is wrong; {{ $labels.NAME }} and {{ $value }} stand for what is known
	Description string // what it means and what to do first
	Section     string // of docs/howto/alerts.md: the heading

	proof proof
}

// A Recording keeps the answers to a Query, for what looks back far.
type Recording struct {
	Name   string
	Query  Query
	Window time.Duration

	proof proof
}

// Expr returns what Prometheus evaluates.
func (a Alert) Expr() string {
	expr := a.Query.Over(span(a.Window))
	if a.Is != "" {
		expr += " " + a.Is
	}
	return expr
}

// Expr returns what Prometheus evaluates.
func (r Recording) Expr() string { return r.Query.Over(span(r.Window)) }

// manual is where the sections of an alert are.
const manual = "https://github.com/lockkeeper/lockkeeper/blob/main/docs/howto/alerts.md"

// Runbook returns the address of what to do.
func (a Alert) Runbook() string { return manual + "#" + anchor(a.Section) }

// anchor is that of a heading, as GitHub makes it.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

// span writes a duration as Prometheus does: 90s, 5m, 1h.
func span(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

type (
	rulesYAML struct {
		Groups []groupYAML `yaml:"groups"`
	}

	groupYAML struct {
		Name  string     `yaml:"name"`
		Rules []ruleYAML `yaml:"rules"`
	}

	ruleYAML struct {
		Record      string            `yaml:"record,omitempty"`
		Alert       string            `yaml:"alert,omitempty"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Labels      map[string]string `yaml:"labels,omitempty"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
)

// Rules returns the rule file: a group of recordings and one of alerts.
func Rules() ([]byte, error) {
	recorded, alerts := groupYAML{Name: "lockkeeper-recordings"}, groupYAML{Name: "lockkeeper-alerts"}
	for _, r := range Recordings() {
		recorded.Rules = append(recorded.Rules, ruleYAML{Record: r.Name, Expr: r.Expr()})
	}
	for _, a := range Alerts() {
		rule := ruleYAML{
			Alert: a.Name, Expr: a.Expr(), Labels: map[string]string{"severity": string(a.Severity)},
			Annotations: map[string]string{"summary": a.Summary, "description": a.Description, "runbook_url": a.Runbook()},
		}
		if a.For > 0 {
			rule.For = span(a.For)
		}
		alerts.Rules = append(alerts.Rules, rule)
	}
	return writeYAML(rulesYAML{Groups: []groupYAML{recorded, alerts}})
}
