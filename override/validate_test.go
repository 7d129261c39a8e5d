package override_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// of is an override with all that every one has.
func of(kind override.Kind, change ...func(*override.Override)) override.Override {
	o := override.Override{ID: "INC-4411", Kind: kind, Until: now.Add(2 * time.Hour), By: "ana", Reason: "disk full"}
	switch kind {
	case override.Boost:
		o.Priority = new(priority.Level(90))
	case override.Cap:
		o.Priority = new(priority.Level(10))
	case override.Extend:
		o.LeaseTimeout = new(time.Hour)
	case override.Hold, override.PreemptNow, override.Bypass:
		o.Match.Scope = "db/orders"
	case override.Freeze, override.Pause:
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func limits(change ...func(*override.Limits)) override.Limits {
	l := override.Limits{Now: now, AllowBypass: true}
	for _, c := range change {
		c(&l)
	}
	return l
}

// refused are the problems of an error, one a line.
func refused(err error) []string {
	if err == nil {
		return nil
	}
	var all []string
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, strings.TrimPrefix(e.Error(), "override: "))
	}
	return all
}

func TestEachKindIsValidWithWhatItNeeds(t *testing.T) {
	for _, kind := range override.Kinds() {
		require.NoError(t, of(kind).Validate(limits()), kind)
	}
}

func TestEachMistakeIsToldWithItsField(t *testing.T) {
	for name, c := range map[string]struct {
		o    override.Override
		want []string
	}{
		"nothing": {override.Override{}, []string{
			`id: is missing; write a name such as "INC-4411"`,
			`by: is missing; write who says so`,
			`reason: is missing; write why`,
			`until: is missing; write when it ends, 2026-11-23T12:00:00Z at most`,
			`kind: is missing; write one of boost, cap, freeze, hold, preempt-now, pause, extend, bypass`,
		}},
		"id": {of(override.Freeze, func(o *override.Override) { o.ID = "a/b" }), []string{
			`id: "a/b" contains '/'; write only letters, digits, dots, underscores and hyphens`,
		}},
		"id starts": {of(override.Freeze, func(o *override.Override) { o.ID = "-b" }), []string{
			`id: "-b" starts with '-'; start with a letter or a digit`,
		}},
		"long": {of(override.Freeze, func(o *override.Override) {
			o.ID, o.By, o.Reason = strings.Repeat("i", 65), strings.Repeat("b", 201), strings.Repeat("r", 1001)
		}), []string{"id: takes 65 bytes; write at most 64", "by: takes 201 bytes; write at most 200", "reason: takes 1001 bytes; write at most 1000"}},
		"two lines": {of(override.Freeze, func(o *override.Override) { o.Reason = "a\nb" }), []string{
			`reason: "a\nb" has a control character or invalid UTF-8 in it; write one line of printable characters`,
		}},
		"kind": {of("freze"), []string{`kind: "freze" is no kind of override; write one of boost, cap, freeze, hold, preempt-now, pause, extend, bypass`}},
		"ended": {of(override.Freeze, func(o *override.Override) { o.Until = now }), []string{
			"until: 2026-11-22T12:00:00Z has passed, it is 2026-11-22T12:00:00Z; write when it ends",
		}},
		"too far": {of(override.Freeze, func(o *override.Override) { o.Until = now.Add(24*time.Hour + time.Second) }), []string{
			"until: 2026-11-23T12:00:01Z is 24h0m1s ahead, and emergency.max_duration is 24h; write 2026-11-23T12:00:00Z or earlier",
		}},
		"hold without a scope": {of(override.Hold, func(o *override.Override) { o.Match = override.Match{Job: "j", Labels: map[string]string{"a": "b"}} }), []string{
			"match.scope: is missing; write the scope whose lock is meant, without wildcards",
			"match.job: hold takes the lock of one scope, from any holder; remove it",
			"match.labels: hold takes the lock of one scope, from any holder; remove it",
		}},
		"preempt-now of many": {of(override.PreemptNow, func(o *override.Override) { o.Match.Scope, o.Match.PriorityBelow = "db/*", new(priority.Level(3)) }), []string{
			`match.scope: "db/*" has a wildcard in it, and preempt-now takes one lock; write one scope`,
			"match.priority_below: preempt-now takes the lock of one scope, from any holder; remove it",
		}},
		"pause of a scope": {of(override.Pause, func(o *override.Override) { o.Match.Scope, o.Match.PriorityAbove = "db/*", new(priority.Level(3)) }), []string{
			"match.scope: pause concerns jobs as a whole: it has no scope and no priority; remove it",
			"match.priority_above: pause concerns jobs as a whole: it has no scope and no priority; remove it",
		}},
		"bypass of everything": {of(override.Bypass, func(o *override.Override) { o.Match = override.Match{Scope: "**", Labels: map[string]string{"a": "b"}} }), []string{
			"match: nothing would have a lock any more; name a scope or a job",
		}},
		"strange scope": {of(override.Freeze, func(o *override.Override) { o.Match.Scope = "/db" }), []string{
			`match.scope: "/db" fits no scope: none begins or ends with a slash; write it like cluster/*`,
		}},
		"empty part": {of(override.Freeze, func(o *override.Override) { o.Match.Scope = "db//x" }), []string{
			`match.scope: "db//x" fits no scope: none has an empty part; write one slash`,
		}},
		"blank": {of(override.Freeze, func(o *override.Override) { o.Match.Scope = "db " }), []string{
			`match.scope: "db " fits no scope: it has white space at its ends; write "db"`,
		}},
		"patterns": {of(override.Freeze, func(o *override.Override) { o.Match.Scope, o.Match.Job = strings.Repeat("x", 501), "a\x00" }), []string{
			"match.scope: takes 501 bytes; write at most 500",
			`match.job: "a\x00" has a control character or invalid UTF-8 in it; write printable characters`,
		}},
		"labels": {of(override.Freeze, func(o *override.Override) { o.Match.Labels = map[string]string{"": "x", "a b": "x", "c": "\n"} }), []string{
			"match.labels[]: a label has no name; write for example team: orders",
			`match.labels[a b]: the name "a b" has ' ' in it; write letters, digits, dots, underscores, hyphens and slashes, a letter or digit first`,
			`match.labels[c]: the value "\n" has a control character or invalid UTF-8 in it; write printable characters`,
		}},
		"below nothing": {of(override.Freeze, func(o *override.Override) {
			o.Match.PriorityBelow, o.Match.PriorityAbove = new(priority.Level(0)), new(priority.Emergency)
		}), []string{
			"match.priority_below: nothing is below 0; write 1 or more",
			"match.priority_above: nothing is above emergency; write a lower one",
		}},
		"between nothing": {of(override.Freeze, func(o *override.Override) {
			o.Match.PriorityBelow, o.Match.PriorityAbove = new(priority.Level(11)), new(priority.Level(10))
		}), []string{
			"match.priority_above: no priority is above 10 and below 11; write a lower one",
		}},
		"boost without anything": {of(override.Boost, func(o *override.Override) { o.Priority = nil }), []string{
			"kind: boost changes nothing without any of priority, forceful, waiting_timeout; write one",
		}},
		"boost down": {of(override.Boost, func(o *override.Override) {
			o.Priority, o.Forceful, o.WaitingTimeout = new(priority.Level(0)), new(false), new(-time.Second)
		}), []string{
			"priority: 0 is the lowest and raises nothing; write 1 or more",
			"forceful: a boost cannot make a request polite; write true, or use cap",
			"waiting_timeout: -1s is negative; write 0 to wait for no cleanup, or leave it out",
		}},
		"cap up": {of(override.Cap, func(o *override.Override) {
			o.Priority, o.Forceful, o.WaitingTimeout = new(priority.Emergency), new(true), new(time.Duration(0))
		}), []string{
			"priority: emergency is the highest and lowers nothing; write a lower one",
			"forceful: a cap cannot make a request forceful; write false, or use boost",
			"waiting_timeout: 0s lengthens nothing; write a duration such as 30s",
		}},
		"below the lowest": {of(override.Cap, func(o *override.Override) {
			o.Priority, o.Match.PriorityAbove = new(priority.Level(-1)), new(priority.Level(-2))
		}), []string{
			"match.priority_above: -2 is below the lowest; write 0 or more",
			"priority: priority -1 is below the lowest; write a number from 0 (default, lowest) to 2147483646",
		}},
		"extend by nothing": {of(override.Extend, func(o *override.Override) { o.LeaseTimeout = nil }), []string{
			"kind: extend changes nothing without any of waiting_timeout, lease_timeout, cleanup_timeout, acquire_timeout; write one",
		}},
		"extend by no time": {of(override.Extend, func(o *override.Override) {
			o.LeaseTimeout, o.CleanupTimeout = new(time.Duration(0)), new(time.Microsecond)
		}), []string{
			"lease_timeout: 0s lengthens nothing; write a duration such as 30s",
			"cleanup_timeout: 1µs is too short; write 1ms or more",
		}},
		"extend by less than nothing": {of(override.Extend, func(o *override.Override) {
			less := new(-time.Second)
			o.WaitingTimeout, o.LeaseTimeout, o.CleanupTimeout, o.AcquireTimeout = less, less, less, less
		}), []string{
			"waiting_timeout: -1s is negative; write 0 to wait for no cleanup, or leave it out",
			"lease_timeout: -1s is negative; write how long the work needs, or leave it out",
			"cleanup_timeout: -1s is negative; write how long the cleanup needs, or leave it out",
			"acquire_timeout: -1s is negative; write 0 to try once, or leave it out",
		}},
		"freeze with fields": {of(override.Freeze, func(o *override.Override) {
			o.Priority, o.Forceful, o.LeaseTimeout, o.Token = new(priority.Level(1)), new(true), new(time.Second), 7
		}), []string{
			"priority: freeze has none; remove it, or use boost or cap",
			"forceful: freeze has none; remove it, or use boost or cap",
			"lease_timeout: freeze has none; remove it, or use extend",
			"token: freeze has none; remove it, or use preempt-now",
		}},
		"token": {of(override.PreemptNow, func(o *override.Override) { o.Token = -1 }), []string{"token: -1 is no token; write that of the holder"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, refused(c.o.Validate(limits())))
		})
	}
}

func TestBypassNeedsToBeAllowed(t *testing.T) {
	err := of(override.Bypass).Validate(limits(func(l *override.Limits) { l.AllowBypass = false }))
	field, ok := errors.AsType[*override.FieldError](err)
	require.True(t, ok)
	require.Equal(t, "kind", field.Field)
	require.Contains(t, field.Reason, "set emergency.allow_bypass: true in the configuration")
}

func TestOneThatHasEndedIsTakenWhereItDoesNothing(t *testing.T) {
	ended := of(override.Freeze, func(o *override.Override) { o.Until = now.Add(-time.Hour) })
	require.Error(t, ended.Validate(limits()))
	require.NoError(t, ended.Validate(limits(func(l *override.Limits) { l.AllowEnded = true })))
}

func TestTheLongestDurationIsThatOfTheLimits(t *testing.T) {
	o := of(override.Freeze, func(o *override.Override) { o.Until = now.Add(time.Hour) })
	hour := func(l *override.Limits) { l.MaxDuration = time.Hour }
	require.NoError(t, o.Validate(limits(hour)))
	o.Until = o.Until.Add(time.Nanosecond)
	require.Error(t, o.Validate(limits(hour)))
}

func TestAPreemptionCanWaitForNoCleanup(t *testing.T) {
	for _, kind := range []override.Kind{override.Boost, override.Hold, override.PreemptNow} {
		require.NoError(t, of(kind, func(o *override.Override) { o.WaitingTimeout = new(time.Duration) }).Validate(limits()), kind)
	}
}

func TestABoostMayReachTheEmergencyPriority(t *testing.T) {
	require.NoError(t, of(override.Boost, func(o *override.Override) { o.Priority = new(priority.Emergency) }).Validate(limits()))
}

func TestWhatNoScopeJobOrLabelLimitsIsForAll(t *testing.T) {
	for _, c := range []struct {
		match override.Match
		all   bool
	}{
		{override.Match{}, true},
		{override.Match{Scope: "*"}, true},
		{override.Match{Scope: "**", Job: "*"}, true},
		{override.Match{Scope: "?*"}, true},
		{override.Match{Scope: "*??", Job: "?*"}, true},
		{override.Match{PriorityBelow: new(priority.Level(10)), PriorityAbove: new(priority.Level(1))}, true},
		{override.Match{Scope: "db/*"}, false},
		{override.Match{Scope: "?"}, false},
		{override.Match{Scope: "*", Job: "batch"}, false},
		{override.Match{Labels: map[string]string{"team": "orders"}}, false},
	} {
		for _, kind := range override.Kinds() {
			limited := kind == override.Hold || kind == override.PreemptNow || kind == override.Bypass // those are refused without a scope or a job
			require.Equal(t, c.all && !limited, override.Override{Kind: kind, Match: c.match}.ForAll(), "%s %v", kind, c.match)
		}
	}
}
