package dashboards

import (
	"fmt"
	"strconv"
	"strings"
)

// A Query is one thing that is asked of Prometheus. Its text has places for what
// differs between those who ask, see [Dashboard.Expr] and [Query.Over].
type Query struct {
	Name   string // unique, in snake_case
	Means  string // a sentence for people, shown with the panel
	Legend string // of a line, in Grafana's {{label}} notation
	Unit   Unit
	Shape  Shape

	text string
}

// A Unit is one of Grafana's.
type Unit string

// The units in use.
const (
	Plain   Unit = "short"
	Seconds Unit = "s"
	Ratio   Unit = "percentunit"
	PerSec  Unit = "ops"
	Moment  Unit = "dateTimeFromNow" // milliseconds since 1970
)

// A Shape is how the answer to a Query is read.
type Shape int

// The shapes in use.
const (
	Lines   Shape = iota // a value for each set of labels, over time
	Buckets              // the buckets of a histogram, over time
	Cells                // a value for each set of labels, now
)

// Places in the text of a query.
const (
	placeLocks  = "$locks"  // matchers of what has the label lock_class; the last ones in their braces
	placeJobs   = "$jobs"   // matchers of what has not
	placePer    = "$per "   // a label to group by, with a comma, or nothing
	placeOnly   = "$per )"  // the same, alone
	placeWindow = "$window" // how far a rate looks back
	placeSpan   = "$span"   // how far a sum looks back
)

// What Grafana puts into the queries of panels.
const (
	ofJob   = `job=~"$job"`
	ofClass = `lock_class="$class"` // not a pattern: a class may have braces in it
)

// panel returns the query as Grafana gets it, about one class or about all.
func (q Query) panel(oneClass bool) string {
	locks := ofJob
	if oneClass {
		locks += "," + ofClass
	}
	return strings.NewReplacer(placeLocks, locks, placeJobs, ofJob, placeOnly, ")", placePer, "",
		placeWindow, "$__rate_interval", placeSpan, "$__range").Replace(q.text)
}

// Over returns the query as rules have it: looking back for a time such as 5m, with
// the job of Prometheus as a label, about everything.
func (q Query) Over(window string) string {
	return strings.NewReplacer(
		","+placeLocks+"}", "}", "{"+placeLocks+"}", "", ","+placeJobs+"}", "}", "{"+placeJobs+"}", "",
		placeOnly, "job)", placePer, "job, ", placeWindow, window, placeSpan, window,
	).Replace(q.text)
}

// quantile returns the text of a quantile of a histogram, by labels, which end
// with a comma each.
func quantile(q float64, metric, by, where string) string {
	return fmt.Sprintf(`histogram_quantile(%g, sum by ($per %sle) (rate(%s_bucket{%s}[$window])))`, q, by, metric, where)
}

// mean returns the text of the mean of a histogram, by labels.
func mean(metric, by, where string) string {
	return fmt.Sprintf(
		"sum by ($per %[2]s) (rate(%[1]s_sum{%[3]s}[$window])) / sum by ($per %[2]s) (rate(%[1]s_count{%[3]s}[$window]))",
		metric, by, where)
}

// percent names a quantile: p50, p99.
func percent(q float64) string { return fmt.Sprintf("p%g", q*100) }

func number(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }
