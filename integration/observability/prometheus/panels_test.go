package prometheus

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/dashboards"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/observability/traces"
)

const (
	waits = "lockkeeper.lock.wait.duration"
	holds = "lockkeeper.lock.hold.duration"
)

// locksExpected are the answers to queries about locks, about one class or, with "",
// all.
func (p *play) locksExpected(class string) map[string]check {
	c, w := p.chronicle, p.window().Seconds()
	is := func(name string) bool { return class == "" || class == name }
	// of some classes, those that are asked for; others are 0
	some := func(label string, bounds map[string]span) map[string]span {
		out := make(map[string]span)
		for name, b := range bounds {
			if is(name) {
				out[label+"="+name] = b
			}
		}
		return out
	}
	count := func(n int) span { return p.about(float64(n) / w) }
	waited, held, cleaned := of(c.waits, class, ""), of(c.holds, class, ""), of(c.cleans, class, "")
	seconds := func(all []measurement) map[string]span {
		out := make(map[string]span)
		for _, name := range []string{db, hotfix, billing, metrics.OtherClass} {
			out[name] = p.about(sum(of(all, name, "")) / w)
		}
		return some("lock_class", out)
	}
	ends := func(all []measurement, label, prefix string, names ...string) map[string]span {
		out := make(map[string]span)
		for _, name := range names {
			if n := len(of(all, class, name)); n > 0 {
				out[prefix+label+"="+name] = count(n)
			}
		}
		return out
	}
	quantiles := func(all []float64, instrument string, q float64) map[string]span {
		return one(p.quantile(instrument, q, all))
	}
	onDB := func(n float64) map[string]span {
		if is(db) {
			return one(exactly(n))
		}
		return one(exactly(0))
	}

	expected := map[string]check{
		"waiting_now":      peak(onDB(2)),
		"seconds_lost":     last(seconds(c.waits)),
		"utilisation":      last(seconds(c.holds)),
		"waits_by_outcome": last(ends(c.waits, "outcome", "", "acquired", "timeout")),
		"holds_by_end":     last(ends(c.holds, "end", "", "released", "preempted", "taken")),
		"wait_buckets":     p.cumulative(waits, waited),
		"waiters_expected": last(one(p.about(sum(waited) / w))),
		"waiters_seen":     last(one(p.about(0))),
		"wait_mean":        last(some("lock_class", map[string]span{class: p.ratio(sum(waited) / float64(len(waited)))})),
		"hold_mean":        last(some("lock_class", map[string]span{class: p.ratio(sum(held) / float64(len(held)))})),
		"overlaps":         last(one(p.about(1))),
		"forced_ratio":     last(one(p.ratio(0.5))),
		"oldest_wait":      peak(some("lock_class", map[string]span{db: between(1, w), hotfix: perhaps(w)})),
		"leases_over":      peak(some("lock_class", map[string]span{billing: exactly(2)})),
		"waiters":          peak(map[string]span{"lock_class=db,lock_mode=exclusive": exactly(2), "lock_class=hotfix,lock_mode=exclusive": perhaps(1)}),
		"holders": all(peak(map[string]span{
			"lock_class=db,lock_mode=exclusive": exactly(1), "lock_class=" + billing + ",lock_mode=shared": exactly(2),
			"lock_class=hotfix,lock_mode=exclusive": perhaps(1), "lock_class=" + tooMany + ",lock_mode=exclusive": perhaps(1),
		}), last(map[string]span{})),
		"failures_by_class":     last(map[string]span{"lock_class=db,outcome=timeout": count(2)}),
		"preemptions_by_reason": last(map[string]span{"reason=outranked": count(2)}),
		"who_preempts_whom":     last(map[string]span{"preemptor_class=hotfix,victim_class=db": p.about(2)}),
		"preemptions_of_class":  last(map[string]span{}),
		"preemptions_by_class":  last(map[string]span{}),
		"failure_ratio":         last(map[string]span{"lock_class=" + class: exactly(0)}),
		"cleanups_by_result":    last(map[string]span{}),
		"preemptions_by_result": last(map[string]span{}),
	}
	switch class {
	case "":
		expected["held_now"] = peak(one(exactly(3)))
		expected["oldest_wait_now"] = peak(one(between(1, w)))
		expected["oldest_hold_now"] = peak(one(between(1, w)))
	case db, billing:
		expected["held_now"] = peak(one(exactly(map[string]float64{db: 1, billing: 2}[class])))
		expected["oldest_hold_now"] = peak(one(between(1, w)))
		expected["oldest_wait_now"] = peak(onDB(0))
	case hotfix: // held too short for every scrape
		expected["held_now"] = peak(one(between(0, 1)))
		expected["waiting_now"] = peak(one(between(0, 1)))
		expected["waiters_seen"] = last(one(between(0, 0.5)))
		expected["oldest_hold_now"] = peak(one(between(0, w)))
		expected["oldest_wait_now"] = peak(one(between(0, w)))
		expected["preemptions_by_class"] = last(map[string]span{"victim_class=db": count(2)})
	}
	if class == db {
		expected["oldest_wait_now"] = peak(one(between(1, w)))
		expected["preemptions_of_class"] = last(map[string]span{"preemptor_class=hotfix": count(2)})
		expected["failure_ratio"] = last(map[string]span{"lock_class=db": p.ratio(2 / float64(len(waited)))})
		// What is seen once a second, of what goes on all of the time.
		mean := sum(waited) / w
		expected["waiters_seen"] = last(one(between(mean*0.6-4/w, mean*1.4+4/w)))
	}
	mode, source := "exclusive", string(metrics.API)
	if class == billing {
		mode = "shared"
	}
	by := "lock_mode=" + mode + ",source=" + source
	expected["waits_by_source"] = last(map[string]span{by: count(len(waited))})
	expected["held_by_source"] = last(map[string]span{by: p.about(sum(held) / w)})
	for name, q := range map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99} {
		expected["wait_"+name] = last(quantiles(waited, waits, q))
		expected["hold_"+name] = last(quantiles(held, holds, q))
		expected["wait_"+name+"_by_class"] = last(some("lock_class", map[string]span{
			db:      p.quantile(waits, q, of(c.waits, db, "")),
			hotfix:  p.quantile(waits, q, of(c.waits, hotfix, "")),
			billing: p.quantile(waits, q, of(c.waits, billing, "")),

			metrics.OtherClass: p.quantile(waits, q, of(c.waits, metrics.OtherClass, "")),
		}))
		if is(hotfix) {
			freed := make(map[string]span)
			for _, how := range []string{"graceful", "forced"} {
				freed["result="+how] = p.quantile("lockkeeper.preemption.duration", q, of(c.freed, hotfix, how))
			}
			expected["freed_"+name] = last(freed)
			expected["preemptions_by_result"] = last(map[string]span{"result=graceful": count(1), "result=forced": count(1)})
		} else {
			expected["freed_"+name] = last(map[string]span{})
		}
		if is(db) {
			expected["cleanup_"+name] = last(map[string]span{"lock_class=db": p.quantile("lockkeeper.cleanup.duration", q, cleaned)})
			expected["cleanups_by_result"] = last(map[string]span{"lock_class=db,result=done": count(1), "lock_class=db,result=lost": count(1)})
		} else {
			expected["cleanup_"+name] = last(map[string]span{})
		}
	}
	return expected
}

// othersExpected are the answers to queries about sessions, ZooKeeper and jobs.
func (p *play) othersExpected() map[string]check {
	w := p.window().Seconds()
	instances := func(alpha, beta, gamma span) map[string]span {
		return rows("instance", map[string]span{p.alpha.addr: alpha, p.beta.addr: beta, p.gamma.addr: gamma})
	}
	daemon := func(b span) map[string]span { return map[string]span{"instance=" + p.daemon.addr: b} }
	zero := exactly(0)
	return map[string]check{
		"session_state":      last(instances(exactly(1), exactly(1), exactly(1))),
		"sessions_down":      last(one(zero)),
		"deadline_margin":    each(between(0.1, sessionTimeout.Seconds()), "instance"),
		"deadline_share":     low(instances(between(0.25, 1), between(0.25, 1), between(0, 1))),
		"sessions_expired":   last(instances(zero, zero, p.about(1))),
		"session_reconnects": last(instances(zero, zero, between(0.99/w, 4/(w-slack)))),
		"locks_seen":         last(rows("instance", map[string]span{p.alpha.addr: exactly(1), p.beta.addr: exactly(1)})),
		"zk_operations":      has("op", map[string]span{"multi": between(8/w, 1000), "create": between(0, 1000), "get": between(1/w, 1000), "ping": between(0, 100)}),
		"zk_operation_p50":   has("op", map[string]span{"multi": between(0, 1), "get": between(0, 1)}),
		"zk_operation_p99":   has("op", map[string]span{"multi": between(0, 15), "get": between(0, 15)}),
		"zk_failures": func(t *testing.T, lines []line) {
			refused := make(map[string]bool) // operations of which all were answered, if not as was hoped for
			answers, err := p.prometheus.at(t.Context(), `sum by (op) (lockkeeper_zk_operation_duration_seconds_count{result="refused",job="workers"}) > 0 `+
				`unless sum by (op) (lockkeeper_zk_operation_duration_seconds_count{result="lost",job="workers"})`, time.Time{})
			require.NoError(t, err)
			for _, l := range answers {
				refused[l.Labels["op"]] = true
			}
			require.NotEmpty(t, refused)
			for _, l := range lines { // what was on its way when gamma's connection ended
				require.NotEmpty(t, l.Labels["op"])
				require.NotContains(t, refused, l.Labels["op"], "an answer is no failure")
			}
		},

		"ticks_by_outcome": all(has("outcome", map[string]span{"ran": between(0.3, 4), "failed": between(0.5, 6), "skipped": between(0.2, 6)}), func(t *testing.T, lines []line) {
			for _, l := range lines {
				require.NotEqual(t, "taken", l.Labels["outcome"], "it is counted twice then")
			}
		}),
		"job_failures": has("job_name", map[string]span{"fails": between(0.5*w, 1.5*w), "runs": zero}),
		"job_retries":  has("job_name", map[string]span{"retried": between(0.3, 1.5), "runs": zero}),
		"ticks_skipped": func(t *testing.T, lines []line) {
			for _, l := range lines {
				if l.Labels["job_name"] == "slow" && l.Labels["reason"] == "overlap" {
					require.InDelta(t, 0.7, l.last(), 0.5)
					return
				}
			}
			require.Fail(t, "no tick of slow was skipped", "%v", lines)
		},
		"ticks_missed":           has("job_name", map[string]span{"runs": zero, "fails": zero, "slow": zero}),
		"runs_now":               hasPeak("job_name", map[string]span{"slow": between(1, 2), "deaf": between(1, 2), "victim": between(1, 2)}),
		"stuck_now":              hasPeak("job_name", map[string]span{"deaf": exactly(1), "runs": zero, "slow": zero}),
		"runs_stuck":             has("job_name", map[string]span{"deaf": between(0.99, w), "runs": zero}),
		"job_preemptions":        has("job_name", map[string]span{"victim": between(0.99/w, 1), "runs": zero}),
		"config_ok":              all(low(daemon(zero)), last(daemon(exactly(1)))),
		"config_read":            last(daemon(between(float64(p.from.UnixMilli()), float64(p.to.UnixMilli())))),
		"config_generation":      last(daemon(exactly(1))),
		"overrides":              last(map[string]span{"kind=freeze,source=file": exactly(1)}),
		"overrides_file_ok":      last(daemon(exactly(1))),
		"overrides_zookeeper_ok": last(daemon(exactly(1))),
		"definitions_differing":  nothing,
		"clock_offset":           last(daemon(zero)),
		"clock_steps":            last(daemon(zero)),
		"builds":                 builds,
		"overflowing":            nothing,
	}
}

// has wants these lines among others, by the last values of one label.
func has(label string, want map[string]span) check { return among(label, want, line.last) }

func hasPeak(label string, want map[string]span) check {
	return among(label, want, func(l line) (most float64) {
		for _, v := range l.Values {
			most = max(most, v)
		}
		return most
	})
}

func among(label string, want map[string]span, value func(line) float64) check {
	return func(t *testing.T, lines []line) {
		t.Helper()
		got := make(map[string]float64)
		for _, l := range lines {
			got[l.Labels[label]] = value(l)
		}
		for name, b := range want {
			require.Contains(t, got, name)
			require.True(t, got[name] >= b.least && got[name] <= b.most, "%s is %g, not between %g and %g, of %v", name, got[name], b.least, b.most, got)
		}
	}
}

func builds(t *testing.T, lines []line) {
	require.Len(t, lines, 1)
	require.InDelta(t, 1, lines[0].last(), 0)
	require.Regexp(t, `^go1\.`, lines[0].Labels["go_version"])
	require.NotEmpty(t, lines[0].Labels["instance"])
}

// expand does what Grafana does: $job is a pattern; $class is one
// value, written into a string.
func expand(expr, job, class, window string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(class)
	return strings.NewReplacer("$__rate_interval", window, "$__range", window, "$job", job, "$class", escaped).Replace(expr)
}

// What each panel shows is what has happened: of all locks and of each class, of
// the processes of one job of Prometheus and not of the other.
func (p *play) panels(t *testing.T) {
	window := fmt.Sprintf("%dms", p.window().Milliseconds())
	seen := 0
	ask := func(t *testing.T, d dashboards.Dashboard, q dashboards.Query, class string, expected map[string]check) {
		t.Run(d.Name+"/"+q.Name+"/"+class, func(t *testing.T) {
			job := workers
			if d.Name == "jobs" {
				job = daemons
			}
			expr := expand(d.Expr(q), job, class, window)
			want := expected[q.Name]
			require.NotNil(t, want, "no expectation for %s", expr)
			var lines []line
			if q.Shape == dashboards.Cells {
				var err error
				lines, err = p.prometheus.at(t.Context(), expr, p.to)
				require.NoError(t, err)
			} else {
				lines = p.prometheus.over(expr, p.from, p.to)
			}
			t.Log(expr)
			want(t, lines)
			seen++
		})
	}
	for _, d := range dashboards.All() {
		for _, panel := range d.Panels() {
			for _, q := range panel.Queries {
				if d.OneClass {
					for _, class := range []string{db, hotfix, billing} {
						ask(t, d, q, class, p.locksExpected(class))
					}
					continue
				}
				expected := p.locksExpected("")
				maps.Copy(expected, p.othersExpected())
				ask(t, d, q, "", expected)
			}
		}
	}
	require.Greater(t, seen, 100)
}

// Traces that Prometheus has beside the buckets of waits are those of the waits, and
// beside those of holds those of the holds.
func (p *play) exemplars(t *testing.T) {
	type place struct{ trace, name string }
	spans := make(map[string]place)
	for _, s := range p.spans.Ended() {
		spans[s.SpanContext().SpanID().String()] = place{s.SpanContext().TraceID().String(), s.Name()}
	}
	for metric, name := range map[string]string{"lockkeeper_lock_wait_duration_seconds_bucket": traces.SpanWait, "lockkeeper_lock_hold_duration_seconds_bucket": traces.SpanHold} {
		var answer []struct {
			SeriesLabels map[string]string `json:"seriesLabels"`
			Exemplars    []struct{ Labels map[string]string }
		}
		require.NoError(t, p.prometheus.get(t.Context(), "/api/v1/query_exemplars", map[string][]string{
			"query": {metric + `{job="workers"}`}, "start": {moment(p.from)}, "end": {moment(p.to)},
		}, &answer))
		classes := make(map[string]bool)
		for _, series := range answer {
			for _, e := range series.Exemplars {
				require.Equal(t, place{e.Labels["trace_id"], name}, spans[e.Labels["span_id"]])
				classes[series.SeriesLabels["lock_class"]] = true
			}
		}
		require.Equal(t, map[string]bool{db: true, hotfix: true, billing: true, metrics.OtherClass: true}, classes, metric)
	}
}

// rules are all healthy; what is recorded has the values of what was played, and
// those alerts fire that should, with what they say.
func (p *play) rules(t *testing.T) {
	c := p.chronicle
	five := (5 * time.Minute).Seconds()
	rate := func(class string, played, rehearsed []measurement) span { // much of the rehearsal is in it
		v := sum(of(played, class, ""))
		return between(v*0.8/five, (v+sum(of(rehearsed, class, "")))*1.5/five)
	}
	recorded := map[string]check{
		"job_lock_class:lockkeeper_lock_wait_seconds:rate5m": has("lock_class", map[string]span{db: rate(db, c.waits, c.before.waits)}),
		"job_lock_class:lockkeeper_lock_hold_seconds:rate5m": has("lock_class", map[string]span{
			db: rate(db, c.holds, c.before.holds), billing: rate(billing, c.holds, c.before.holds),
		}),
		"job_lock_class:lockkeeper_lock_wait_seconds:p95_5m":        has("lock_class", map[string]span{db: between(0.5, 60), billing: between(0, 1)}),
		"job_lock_class:lockkeeper_lock_wait_failures:ratio_rate5m": has("lock_class", map[string]span{db: between(0.05, 0.4), billing: exactly(0)}),
		"job_lock_class:lockkeeper_lock_waiters:max":                has("lock_class", map[string]span{db: exactly(0), billing: exactly(0)}),
		"job_op:lockkeeper_zk_operation_seconds:p99_5m":             has("op", map[string]span{"multi": between(0, 15)}),
	}
	p.evaluated()
	for _, r := range dashboards.Recordings() {
		t.Run(r.Name, func(t *testing.T) {
			require.Contains(t, recorded, r.Name)
			lines, err := p.prometheus.at(t.Context(), `last_over_time(`+r.Name+`{job="workers"}[1m])`, time.Time{}) // a busy machine misses a scrape now and then
			require.NoError(t, err)
			recorded[r.Name](t, lines)
		})
	}

	states, fired := p.alerts()
	p.prometheus.wait("the alerts are those that should fire", func(context.Context) error {
		for _, a := range dashboards.Alerts() {
			if _, fires := p.firing()[a.Name]; a.Name != late && fires != (states[a.Name] == "firing") {
				states, fired = p.alerts()
				return fmt.Errorf("%s is %s", a.Name, states[a.Name])
			}
		}
		return nil
	})
	require.Len(t, states, len(dashboards.Recordings())+len(dashboards.Alerts()))
	for _, a := range dashboards.Alerts() {
		t.Run(a.Name, func(t *testing.T) {
			want, fires := p.firing()[a.Name]
			for _, key := range want {
				require.Contains(t, fired[a.Name], key)
			}
			// What is compared with the bounds has values also where it does not fire.
			unbound := a.Query.Over(a.Window.String())
			if a.Window == 0 {
				unbound = a.Query.Over("1m")
			}
			some := a.Is != "" || fires || a.Name == "LockkeeperSeriesOverflow"
			p.on(t).prometheus.wait(unbound, func(ctx context.Context) error {
				lines, err := p.prometheus.at(ctx, unbound, time.Time{})
				if err == nil && some != (len(lines) > 0) {
					err = fmt.Errorf("%d lines", len(lines))
				}
				return err
			})
		})
	}
}

// alerts returns the states of all rules, and the summaries of the alerts that fire, by their labels.
func (p *play) alerts() (states map[string]string, fired map[string]map[string]string) {
	p.t.Helper()
	var answer struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError, State string
				Alerts                         []struct {
					State               string
					Labels, Annotations map[string]string
				}
			}
		}
	}
	require.NoError(p.t, p.prometheus.get(p.t.Context(), "/api/v1/rules", nil, &answer))
	states, fired = make(map[string]string), make(map[string]map[string]string)
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			require.Equal(p.t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
			states[r.Name] = r.State
			for _, a := range r.Alerts {
				require.NotContains(p.t, a.Annotations["summary"]+a.Annotations["description"], "{{")
				if a.State == "firing" {
					if fired[r.Name] == nil {
						fired[r.Name] = map[string]string{}
					}
					fired[r.Name][line{Labels: labelsOf(a.Labels)}.key()] = a.Annotations["summary"]
				}
			}
		}
	}
	return states, fired
}

func labelsOf(alert map[string]string) map[string]string {
	own := maps.Clone(alert)
	delete(own, "alertname")
	delete(own, "severity")
	return own
}

// late is the alert that fires, or not: a busy machine misses ticks.
const late = "LockkeeperTicksMissed"

// firing are the alerts that fire when all is played, and for whom at least.
func (p *play) firing() map[string][]string {
	return map[string][]string{
		"LockkeeperOverlap":           {"job=workers,lock_class=db"},
		"LockkeeperForcedPreemptions": {"job=workers"},
		"LockkeeperCleanupTimeout":    {"job=workers,lock_class=db"},
		"LockkeeperSessionExpired":    {"instance=" + p.gamma.addr + ",job=workers"},
		"LockkeeperJobFails":          {"job=daemons,job_name=fails"},
		"LockkeeperRunStuck":          {"job=daemons,job_name=deaf"},
	}
}

// Every query of every panel and every rule is asked of a real Prometheus, after a
// contention whose outcome is known.
func TestEveryPanelAndRuleTellsWhatHasHappened(t *testing.T) {
	p := perform(t)
	t.Run("panels", p.panels)
	t.Run("scraped", p.scraped)
	t.Run("exemplars", p.exemplars)
	t.Run("rules", p.rules)
}
