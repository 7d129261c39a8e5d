package console

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

// override reads one as the form has it.
func (c *Console) override(p *params, by By) override.Override {
	now := c.o.Now()
	o := override.Override{
		ID: p.text("id"), Kind: override.Kind(p.text("kind")), By: by.Name, Reason: by.Reason,
		Match: override.Match{
			Scope: p.text("scope"), Job: p.text("job"), PriorityBelow: p.level("below"), PriorityAbove: p.level("above"),
		},
		Priority: p.level("priority"), Token: int64(p.token()),
		WaitingTimeout: p.term("waiting"), LeaseTimeout: p.term("lease"),
		CleanupTimeout: p.term("cleanup"), AcquireTimeout: p.term("acquire"),
	}
	if text := p.text("forceful"); text != "" {
		o.Forceful = new(p.flag("forceful"))
	}
	length := p.maybeDuration("for", time.Second, longest)
	if length == nil {
		if !p.isWrong("for") {
			p.wrong("for", "is missing; write how long it lasts, for example 2h")
		}
		length = new(time.Minute)
	}
	o.Until = now.Add(*length).UTC().Truncate(time.Millisecond)
	switch all := p.flag("all"); {
	case p.isWrong("all"):
	case o.ForAll() && !all:
		p.wrong("all", "is missing: neither a scope nor a job limits this %s, and it would match everything; "+
			"write one of them, or say that all are meant", o.Kind)
	case all && !o.ForAll() && o.Match.Scope+o.Match.Job != "":
		p.wrong("all", "is more than the scope or the job says; leave out one of them")
	}
	probe := o
	if probe.Reason == "" {
		probe.Reason = "said already"
	}
	for _, f := range fieldsOf(probe.Validate(override.Limits{Now: now, MaxDuration: longest, AllowBypass: true})) {
		if name := formField(f.Field); !p.isWrong(name) {
			p.wrong(name, "%s", f.Detail)
		}
	}
	return o
}

// level reads a priority; nil for none.
func (p *params) level(name string) *priority.Level {
	text := p.text(name)
	if text == "" {
		return nil
	}
	if text == "emergency" {
		return new(priority.Emergency)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == int64(priority.Emergency) {
		p.wrong(name,
			"%s is no priority; write a whole number from 0 to %d, or emergency", quoted(text), priority.Emergency-1)
		return nil
	}
	level, err := priority.LevelOf(n)
	if err != nil {
		p.wrong(name, "%v", err)
		return nil
	}
	return &level
}

// term reads a timeout of an override; nil for none. What is wrong with one that is negative, the override says.
func (p *params) term(name string) *time.Duration {
	if d, err := time.ParseDuration(p.values.Get(name)); err == nil && d < 0 {
		p.known = append(p.known, name)
		return &d
	}
	return p.maybeDuration(name, 0, longest)
}

// forAll asks whether an override that matches everything is meant.
func forAll(ctx context.Context, o Operator, one override.Override) (string, error) {
	ctx, cancel := withPatience(ctx)
	defer cancel()
	n, err := o.Concerns(ctx, one)
	if err != nil {
		return "", err
	}
	what := "request"
	if one.Kind == override.Pause {
		what = "job"
	}
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%s (%s) matches everything: %d %s now, and later ones", one.ID, one.Kind, n, what), nil
}

// formField is what the form calls a field of an override.
func formField(field string) string {
	switch field {
	case "match", "scope":
		return "scope"
	case "until":
		return "for"
	case "priority_below":
		return "below"
	case "priority_above":
		return "above"
	case "waiting_timeout", "lease_timeout", "cleanup_timeout", "acquire_timeout":
		return field[:len(field)-len("_timeout")]
	}
	return field
}
