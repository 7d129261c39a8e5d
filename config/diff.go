package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Diff is what changes from one configuration to the next. Its zero value is
// no change.
type Diff struct {
	Added   []string    // jobs, in the order of the new file
	Removed []string    // jobs, in the order of the old file
	Changed []JobChange // jobs, in the order of the new file

	// Settings are the changes elsewhere, in the order of the documentation.
	Settings []Change
}

// A JobChange is a job that is in both configurations, and not the same.
type JobChange struct {
	Name   string
	Fields []Change // in the order of the documentation; at least one
}

// A Change is one field that changes.
type Change struct {
	Field    string // for example schedule, or zookeeper.root
	From, To string // for people; both empty where they would be long, or secret
}

// String returns "field (from → to)".
func (c Change) String() string {
	if c.From == c.To {
		return c.Field
	}
	return fmt.Sprintf("%s (%s → %s)", c.Field, cmp.Or(c.From, "nothing"), cmp.Or(c.To, "nothing"))
}

// A RestartError is returned for a file with changes that take effect only
// when the daemon starts. Nothing of it is in force then.
type RestartError struct{ Changes []Change }

func (e *RestartError) Error() string {
	return fmt.Sprintf(
		"%s cannot change while the daemon runs, so nothing of the file is in force; restart the daemon, or take it back",
		joinChanges(e.Changes))
}

// Compare returns what changes from one configuration to another.
func Compare(from, to *Config) Diff {
	var d Diff
	before := make(map[string]jobs.Job, len(from.Jobs))
	for _, job := range from.Jobs {
		before[job.Name] = job
	}
	still := make(map[string]bool, len(to.Jobs))
	for _, job := range to.Jobs {
		still[job.Name] = true
		old, known := before[job.Name]
		if !known {
			d.Added = append(d.Added, job.Name)
			continue
		}
		if fields := compareJobs(old, job, sameWork(from, to, old, job)); len(fields) > 0 {
			d.Changed = append(d.Changed, JobChange{Name: job.Name, Fields: fields})
		}
	}
	for _, job := range from.Jobs {
		if !still[job.Name] {
			d.Removed = append(d.Removed, job.Name)
		}
	}
	d.Settings = compareSettings(from, to)
	return d
}

// Empty reports whether nothing changes.
func (d Diff) Empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed)+len(d.Settings) == 0
}

// String returns the changes, one a line.
func (d Diff) String() string {
	var lines []string
	for _, name := range d.Removed {
		lines = append(lines, "- job "+name)
	}
	for _, name := range d.Added {
		lines = append(lines, "+ job "+name)
	}
	for _, job := range d.Changed {
		lines = append(lines, "~ job "+job.Name+": "+joinChanges(job.Fields))
	}
	for _, c := range d.Settings {
		lines = append(lines, "~ "+c.String())
	}
	return strings.Join(lines, "\n")
}

func joinChanges(changes []Change) string {
	return words.Join(changes, ", ", Change.String)
}

// log tells each job on a line of its own.
func (d Diff) log(log *slog.Logger) {
	for _, name := range d.Removed {
		log.Info("job removed", "job", name)
	}
	for _, name := range d.Added {
		log.Info("job added", "job", name)
	}
	for _, job := range d.Changed {
		log.Info("job changed", "job", job.Name, "changes", joinChanges(job.Fields))
	}
	for _, c := range d.Settings {
		log.Info("setting changed", "field", c.Field, "from", c.From, "to", c.To)
	}
}

// byThemselves are sections that are nothing but what jobs are made of.
var byThemselves = []string{"priorities", "scopes"}

// needsRestart returns an error if something changes that is not live.
func (d Diff) needsRestart(live []string) error {
	var refused []Change
	for _, c := range d.Settings {
		section, _, _ := strings.Cut(c.Field, ".")
		if !slices.Contains(live, c.Field) && !slices.Contains(live, section) && !slices.Contains(byThemselves, section) {
			refused = append(refused, c)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return &RestartError{Changes: refused}
}

// changes collects fields that differ.
type changes []Change

func compare[T any](c *changes, field string, from, to T, show func(T) string) {
	switch {
	case reflect.DeepEqual(from, to) || isEmptyList(from) && isEmptyList(to):
	case show == nil:
		*c = append(*c, Change{Field: field})
	default:
		*c = append(*c, Change{Field: field, From: show(from), To: show(to)})
	}
}

func isEmptyList(v any) bool {
	list := reflect.ValueOf(v)
	return list.Kind() == reflect.Slice && list.Len() == 0
}

// given writes that there is a section.
func given(there bool) string {
	if there {
		return "given"
	}
	return ""
}

func plain[T any](v T) string { return fmt.Sprint(v) }

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return quote(s)
}

func period(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return words.Duration(d)
}

// limit writes a limit of the drain as the file has it.
func limit(d time.Duration) string { return words.Duration(max(d, 0)) }

func compareJobs(a, b jobs.Job, sameWork bool) []Change {
	var c changes
	compare(&c, "schedule", a.Schedule, b.Schedule, quoted)
	if !sameWork {
		c = append(c, Change{Field: "run"})
	}
	compare(&c, "locks", orNone(a.Requirements), orNone(b.Requirements), nil)
	compare(&c, "labels", orEmpty(a.Labels), orEmpty(b.Labels), nil)
	compare(&c, "hold_at_least", a.HoldAtLeast, b.HoldAtLeast, period)
	compare(&c, "timezone", a.TimeZone, b.TimeZone, plain)
	compare(&c, "dst", a.DST, b.DST, nil)
	compare(&c, "misfire", a.Misfire, b.Misfire, func(m jobs.Misfire) string {
		return described(m.Policy, labelled("window", period(m.Window)), counted("max", m.Max))
	})
	compare(&c, "overlap", a.Overlap, b.Overlap, func(o jobs.Overlap) string {
		return described(o.Policy, counted("max", o.Max))
	})
	compare(&c, "blackout", orNone(a.Blackouts), orNone(b.Blackouts), nil)
	compare(&c, "jitter", a.Jitter, b.Jitter, period)
	compare(&c, "timeout", a.Timeout, b.Timeout, period)
	compare(&c, "retry", a.Retry, b.Retry, func(r jobs.Retry) string {
		return described(fmt.Sprint(r.Max), labelled("initial", period(r.Initial)),
			labelled("max_interval", period(r.MaxInterval)))
	})
	compare(&c, "on_preempt", a.OnPreempt, b.OnPreempt, func(o jobs.OnPreempt) string {
		return described(o.Then, counted("max_preemptions", o.MaxPreemptions))
	})
	compare(&c, "pause_after_failures", a.PauseAfterFailures, b.PauseAfterFailures, plain)
	compare(&c, "pause_for", a.PauseFor, b.PauseFor, period)
	compare(&c, "stuck_after", a.StuckAfter, b.StuckAfter, period)
	if len(c) == 0 && !sameRest(a, b) {
		c = append(c, Change{Field: "job"})
	}
	return c
}

// sameRest compares what compareJobs does not know of.
func sameRest(a, b jobs.Job) bool {
	for _, job := range []*jobs.Job{&a, &b} {
		job.Work = nil
		job.Labels = orEmpty(job.Labels)
		job.Requirements, job.Blackouts = orNone(job.Requirements), orNone(job.Blackouts)
	}
	return reflect.DeepEqual(a, b)
}

func orNone[T lockguard.Requirement | jobs.Blackout | string](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// orEmpty makes no labels and labels of which there are none the same.
func orEmpty(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

func described[T ~string](policy T, more ...string) string {
	all := []string{string(policy)}
	for _, m := range more {
		if m != "" {
			all = append(all, m)
		}
	}
	return strings.TrimSpace(strings.Join(all, " "))
}

func labelled(name, v string) string {
	if v == "" {
		return ""
	}
	return name + " " + v
}

func counted(name string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", name, n)
}

// sameWork compares what two jobs run. A configuration that was not read from
// a file does not say it in a form that can be compared.
func sameWork(from, to *Config, a, b jobs.Job) bool {
	old, known := from.recipes[a.Name]
	next, also := to.recipes[b.Name]
	if known && also {
		return old.equal(next)
	}
	return reflect.DeepEqual(a.Work, b.Work)
}

func compareSettings(a, b *Config) []Change {
	var c changes
	fileShape.compare(&c, "", a, b)
	return c
}

func servers(c lock.Config) string { return strings.Join(c.Servers, ",") + c.Chroot }

// sameTLS compares what a file can say of TLS.
func sameTLS(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.ServerName != b.ServerName || (a.RootCAs == nil) != (b.RootCAs == nil) ||
		a.RootCAs != nil && !a.RootCAs.Equal(b.RootCAs) {
		return false
	}
	return slices.EqualFunc(a.Certificates, b.Certificates, func(a, b tls.Certificate) bool {
		return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal) && reflect.DeepEqual(a.PrivateKey, b.PrivateKey)
	})
}
