package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

// overrideLevel is a priority as overrides have it: also emergency.
type overrideLevel struct {
	is    level
	given bool
}

func (v *overrideLevel) Set(s string) error {
	v.given = true
	if s == "emergency" {
		v.is = level{is: priority.Emergency}
		return nil
	}
	if err := v.is.Set(s); err != nil {
		return err
	}
	if v.is.bad != "" {
		v.is.bad += ", or emergency"
	}
	return nil
}

func (v *overrideLevel) String() string  { return "" }
func (v *overrideLevel) Type() string    { return "level" }
func (v *overrideLevel) problem() string { return v.is.bad }

// level returns the priority, nil when the flag is left out.
func (v *overrideLevel) level() *priority.Level {
	if !v.given || v.is.bad != "" {
		return nil
	}
	return &v.is.is
}

// labels is the value of a flag that may be given several times.
type labels struct {
	is  map[string]string
	bad string
}

func (v *labels) Set(s string) error {
	name, value, found := strings.Cut(s, "=")
	err := override.CheckLabel(name, value)
	switch {
	case !found:
		v.bad = fmt.Sprintf("%q has no value; write name=value, for example team=orders", s)
	case err != nil:
		v.bad = err.Error()
	case v.is == nil:
		v.is = map[string]string{name: value}
	default:
		v.is[name] = value
	}
	return nil
}

func (v *labels) String() string  { return "" }
func (v *labels) Type() string    { return "label" }
func (v *labels) problem() string { return v.bad }
func (v *labels) forget()         { *v = labels{} }

// overrideFlags describe one override.
type overrideFlags struct {
	kind, scope, job string
	labels           labels
	all              yes // without scope, job and labels
	below, above     overrideLevel

	until  moment
	forHow duration
	operatorFlags

	priority                         overrideLevel
	forceful                         yes
	isForceful                       bool // it is given
	waiting, lease, cleanup, acquire duration
	token                            int64
}

// addFlagsOf adds what is wrong with the flags whatever the time is.
func (p *program) addFlagsOf(f *overrideFlags, args []string) {
	now := time.Now()
	probe := f.override("ID", now, "somebody")
	if len(args) > 0 {
		probe.ID = args[0]
	}
	if f.priority.is.bad != "" { // said already, like what follows from it
		probe.Priority = new(priority.Level)
	}
	for _, t := range []struct {
		flag  *duration
		value **time.Duration
	}{
		{&f.waiting, &probe.WaitingTimeout},
		{&f.lease, &probe.LeaseTimeout},
		{&f.cleanup, &probe.CleanupTimeout},
		{&f.acquire, &probe.AcquireTimeout},
	} {
		if t.flag.bad != "" {
			*t.value = new(time.Second)
		}
	}
	switch forAll := probe.ForAll(); {
	case p.unclear:
	case forAll && !f.all.is:
		p.problems.add(fmt.Sprintf("--all is missing: neither --scope nor --job nor --label limits this %s, "+
			"and it would match everything; give one of them, or --all", probe.Kind))
	case !forAll && f.all.is && (f.scope != "" || f.job != "" || len(f.labels.is) > 0):
		p.problems.add("--all: --scope, --job or --label says that it matches less; leave that out, or --all")
	}
	probe.Until, probe.Reason = now.Add(time.Minute), cmp.Or(probe.Reason, "said already")
	if !p.unclear {
		p.problems.addOverride(probe.Validate(override.Limits{Now: now, AllowBypass: true}))
	}
}

// override is the one that the flags describe.
func (f *overrideFlags) override(id string, now time.Time, by string) override.Override {
	until := f.until.or(now)
	if f.forHow.given {
		until = now.Add(f.forHow.or(0))
	}
	o := override.Override{
		ID: id, Kind: override.Kind(f.kind), Until: until.Truncate(time.Millisecond), By: cmp.Or(f.by, by), Reason: f.reason,
		Match: override.Match{
			Scope: f.scope, Job: f.job, Labels: f.labels.is, PriorityBelow: f.below.level(), PriorityAbove: f.above.level(),
		},
		Priority:       f.priority.level(),
		WaitingTimeout: f.waiting.limit(), LeaseTimeout: f.lease.limit(), CleanupTimeout: f.cleanup.limit(),
		AcquireTimeout: f.acquire.limit(), Token: f.token,
	}
	if f.isForceful {
		o.Forceful = &f.forceful.is
	}
	return o
}

// addOverride adds what is wrong with an override, as flags have it.
func (p *problems) addOverride(err error) {
	if err == nil {
		return
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			p.addOverride(err)
		}
		return
	}
	field, ok := errors.AsType[*override.FieldError](err)
	if !ok {
		p.add(err.Error())
		return
	}
	p.add(overrideFlag(field.Field) + ": " + field.Reason)
}

// overrideFlag is how the flag for a field of an override is spelt.
func overrideFlag(field string) string {
	field = strings.TrimPrefix(field, "match.")
	switch {
	case field == "id":
		return "ID"
	case field == "match":
		return "--scope, --job"
	case strings.HasPrefix(field, "priority_"):
		return "--" + strings.TrimPrefix(field, "priority_")
	case strings.HasPrefix(field, "labels"):
		return "--label"
	}
	return "--" + strings.TrimSuffix(field, "_timeout")
}
