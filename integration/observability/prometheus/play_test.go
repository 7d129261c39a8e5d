package prometheus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/dashboards"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A play is a contention that is known in advance, and a Prometheus that looks on.
type play struct {
	t   *testing.T
	zk  *zkserver.Server
	net *netfault.Proxy // between gamma and ZooKeeper

	alpha, beta *worker // they contend
	gamma       *worker // its session ends, and it has room for one class
	daemon      *daemon
	prometheus  *server

	chronicle *chronicle
	spans     *tracetest.SpanRecorder

	from, to time.Time // when it was performed
}

// perform plays it twice: the rehearsal makes all series, so that each begins
// before the performance. What it returns is about the performance.
func perform(t *testing.T) *play {
	t.Helper()
	installed(t, "prometheus") // before all the rest
	zk := zkserver.Start(t, zkserver.WithSessionTimeouts(sessionTimeout, sessionTimeout))
	p := &play{t: t, zk: zk, chronicle: newChronicle(), spans: tracetest.NewSpanRecorder()}
	p.net = netfault.New(t, p.zk.Addr())
	root := zkserver.Root(t)
	classes := metrics.WithClasses(db, hotfix, billing)
	p.alpha = startWorker(t, p.zk.Addr(), root, p.chronicle, p.spans, classes)
	p.beta = startWorker(t, p.zk.Addr(), root, p.chronicle, p.spans, classes)
	p.alpha.look(t)
	p.beta.look(t)
	p.gamma = startWorker(t, p.net.Addr(), root, p.chronicle, p.spans, metrics.WithMaxClasses(1), metrics.WithClasses(db))
	p.daemon = startDaemon(t, p.zk.Addr(), root+"-daemon")
	rules, err := dashboards.Rules()
	require.NoError(t, err)
	p.prometheus = startPrometheus(t, rules, map[string][]string{
		workers: {p.alpha.addr, p.beta.addr, p.gamma.addr}, daemons: {p.daemon.addr},
	})
	p.until(`sum(up) == 4`)

	p.once("rehearsal")
	p.idle()
	p.chronicle.forget()
	p.from = time.Now()
	p.settle() // what there was before is in the window, so that Prometheus sees it grow
	p.settle()
	p.once("performance")
	p.until(fmt.Sprintf("vector(time()) > %s", moment(p.from.Add(enough))))
	p.idle()
	p.to = time.Now()
	return p
}

// enough is how long the performance is at least, so that what is counted in its
// window is hardly changed by the scrapes at its ends: 2 is not taken for 3.
const enough = 10 * time.Second

// window is how long the performance was: so far do queries look back.
func (p *play) window() time.Duration { return p.to.Sub(p.from).Truncate(time.Millisecond) }

// until waits until the answer to a query is not empty.
func (p *play) until(expr string) {
	p.t.Helper()
	p.prometheus.wait(expr, func(ctx context.Context) error {
		lines, err := p.prometheus.at(ctx, expr, time.Time{})
		if err == nil && len(lines) == 0 {
			err = errors.New("not yet")
		}
		return err
	})
}

// value returns the answer to a query that has one, though a busy machine misses a scrape now and then.
func (p *play) value(expr string) float64 {
	p.t.Helper()
	last := "last_over_time((" + expr + ")[1m:1s])"
	p.until(last)
	lines, err := p.prometheus.at(p.t.Context(), last, time.Time{})
	require.NoError(p.t, err)
	require.Len(p.t, lines, 1, expr)
	return lines[0].last()
}

// settle waits until every target was scraped once more, with success.
func (p *play) settle() {
	p.t.Helper()
	p.until(fmt.Sprintf(`count(timestamp(up) > %s and up == 1) == 4`, moment(time.Now())))
}

// idle waits until all have seen that every lock is free; alpha and beta are not scraped at the
// same time.
func (p *play) idle() {
	p.t.Helper()
	p.until(`sum(lockkeeper_lock_holder_count{job="workers"}) == 0`)
	p.settle()
}

// evaluated waits until all rules have been evaluated since the performance.
func (p *play) evaluated() {
	p.t.Helper()
	p.prometheus.wait("rules are evaluated", func(ctx context.Context) error {
		var answer struct {
			Groups []struct{ LastEvaluation time.Time }
		}
		if err := p.prometheus.get(ctx, "/api/v1/rules", nil, &answer); err != nil {
			return err
		}
		for _, g := range answer.Groups {
			if !g.LastEvaluation.After(p.to) {
				return errors.New("not yet")
			}
		}
		return nil
	})
}

// once plays it, from the first request to the last release. Workers and daemon have
// nothing to do with each other.
func (p *play) once(act string) {
	p.t.Run(act, func(t *testing.T) {
		t.Run("workers", func(t *testing.T) {
			t.Parallel()
			p := p.on(t)
			p.queue()
			p.preempt()
			p.giveUp()
			p.alpha.locks.Overlap(p.t.Context(), db)
			p.disturb()
		})
		t.Run("daemon", func(t *testing.T) {
			t.Parallel()
			p.on(t).order()
		})
	})
	require.False(p.t, p.t.Failed(), act)
}

// on is the same play, that fails another test.
func (p *play) on(t *testing.T) *play {
	other, prometheus, daemon := *p, *p.prometheus, *p.daemon
	prometheus.t, daemon.t = t, t
	other.t, other.prometheus, other.daemon = t, &prometheus, &daemon
	return &other
}

// queue: one holds, two wait; beside them two share, for longer than they said.
func (p *play) queue() {
	p.t.Helper()
	wants := lockguard.Requirement{Scope: "db", Class: db, Terms: priority.Terms{Priority: 5}}
	shares := lockguard.Requirement{Scope: "tenant/7/billing", Class: billing, Terms: priority.Terms{Mode: priority.Shared, LeaseTimeout: time.Second}}
	readers := []*tenure{p.alpha.hold(p.t, shares).have(), p.beta.hold(p.t, shares).have()}
	first := p.alpha.hold(p.t, wants).have()
	second := p.beta.hold(p.t, wants)
	p.until(`max(lockkeeper_lock_waiter_count{lock_class="db"}) == 1`)
	third := p.beta.hold(p.t, wants)
	p.until(`max(lockkeeper_lock_waiter_count{lock_class="db"}) == 2 and max(lockkeeper_lock_oldest_wait_age_seconds{lock_class="db"}) > 3`)
	p.until(`sum(max by (lock_class) (lockkeeper_lock_holder_count{job="workers"})) == 3`)
	p.until(`max(lockkeeper_lock_overdue{lock_class="` + billing + `"}) == 2`)
	for _, h := range []*tenure{first, second, third} {
		require.NoError(p.t, h.have().release())
	}
	for _, h := range readers {
		require.NoError(p.t, h.release())
	}
	p.idle()
}

// preempt: one holder goes in time, the other has to be forced.
func (p *play) preempt() {
	p.t.Helper()
	victim := lockguard.Requirement{Scope: "db", Class: db, Terms: priority.Terms{Priority: 1, CleanupTimeout: 20 * time.Second}}
	asks := lockguard.Requirement{Scope: "db", Class: hotfix, Terms: priority.Terms{Priority: 9}}

	goes := p.alpha.hold(p.t, victim, func(context.Context) error { return nil }).have()
	polite := p.beta.hold(p.t, asks).have()
	require.ErrorAs(p.t, goes.Err(), new(*lockguard.PreemptedError))
	require.NoError(p.t, polite.release())

	taken := make(chan struct{})
	stays := p.alpha.hold(p.t, victim, func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		<-taken
		<-hold.Lost()
		return nil
	}).have()
	soon := 200 * time.Millisecond
	asks.Forceful, asks.WaitingTimeout = true, &soon
	forceful := p.beta.hold(p.t, asks).have()
	close(taken)
	require.Error(p.t, stays.Err())
	require.NoError(p.t, forceful.release())
}

// giveUp: two wait for less long than the lock is held.
func (p *play) giveUp() {
	p.t.Helper()
	soon := 200 * time.Millisecond
	wants := lockguard.Requirement{Scope: "db", Class: db, Terms: priority.Terms{Priority: 5}}
	holder := p.alpha.hold(p.t, wants).have()
	wants.AcquireTimeout = &soon
	for range 2 {
		require.Error(p.t, p.beta.hold(p.t, wants).Err())
	}
	require.NoError(p.t, holder.release())
}

// disturb: gamma has to connect anew, then loses its session; and has a lock of a
// class for which it has no room.
func (p *play) disturb() {
	p.t.Helper()
	before := p.gamma.client.Health()
	require.NoError(p.t, p.net.Reset())
	require.Eventually(p.t, func() bool { return p.gamma.client.Health().Reconnects > before.Reconnects }, harness.Patience, 10*time.Millisecond)
	id, password := p.gamma.client.Session()
	zkserver.ExpireSession(p.t, p.zk.Addr(), id, password)
	require.Eventually(p.t, func() bool { return p.gamma.client.Health().Expirations > before.Expirations }, harness.Patience, 10*time.Millisecond)
	require.NoError(p.t, p.gamma.hold(p.t, lockguard.Requirement{Scope: "other", Class: tooMany}).have().release())
}

// order: the daemon has a configuration that it refuses, for a time, and work that
// ignores its cancellation.
func (p *play) order() {
	p.t.Helper()
	before := p.value(`sum(lockkeeper_job_preemptions_total{job_name="victim"})`)
	good := p.daemon.read("lockkeeper.yaml")
	p.daemon.write("lockkeeper.yaml", "version: 1\njobs: nothing\n")
	p.until(`lockkeeper_config_last_reload_ok == 0`)
	p.settle()
	p.daemon.write("lockkeeper.yaml", good)
	p.until(`lockkeeper_config_last_reload_ok == 1`)

	p.until(`lockkeeper_job_stuck{job_name="deaf"} == 1`)
	p.daemon.write("end", "")
	p.until(`lockkeeper_job_stuck{job_name="deaf"} == 0`)
	p.daemon.remove("end")
	p.until(`lockkeeper_job_stuck{job_name="deaf"} == 1`)
	p.until(fmt.Sprintf(`lockkeeper_job_preemptions_total{job_name="victim"} > %g`, before))
}
