package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/survey"
)

// An urgent request is one at emergency priority.
type urgent struct {
	lock.Contender
	scope string
	node  string
	holds bool
}

// lookAtEmergencies reads who is at emergency priority, and what is on the board.
func (x *examiner) lookAtEmergencies(ctx context.Context, client *lock.Client) {
	if len(x.facts.survey.Emergencies) == 0 {
		return
	}
	x.facts.posted, x.facts.postedErr = client.Overrides().List(ctx)
	x.facts.serverNow = client.Now()
	looked := map[string]bool{}
	for _, e := range x.facts.survey.Emergencies {
		if looked[e.Scope] {
			continue
		}
		looked[e.Scope] = true
		state, err := client.Lock(ctx, e.Scope)
		if err != nil {
			x.facts.urgentErr = cmp.Or(x.facts.urgentErr, err)
			continue
		}
		for _, c := range slices.Concat(state.Holders, state.Waiters) {
			if c.Priority == priority.Emergency {
				x.facts.urgent = append(x.facts.urgent, urgent{
					Contender: c, scope: e.Scope, node: nodeOf(x.facts.survey.Emergencies, e.Scope, c.ID), holds: c.Position == 0,
				})
			}
		}
	}
}

func nodeOf(all []survey.EmergencyRequest, scope, id string) string {
	for _, e := range all {
		if e.Scope == scope && e.ID == id {
			return e.Path
		}
	}
	return scope // it came after the survey
}

// checkEmergency names requests at emergency priority without an override that is
// in force: our own clients make none.
func checkEmergency(f *findings, x *facts, o Options) {
	if !x.answers() || x.surveyErr != nil || !x.survey.Exists {
		return
	}
	if x.urgentErr != nil {
		f.skip("", fmt.Sprintf("requests at emergency priority cannot be looked at: %v", x.urgentErr), "see access")
	}
	file := fileOverrides(o, x.serverNow)
	for _, u := range x.urgent {
		who := fmt.Sprintf("%s for the lock %q at emergency priority: %q, host %s, pid %d, session 0x%x",
			standing(u), u.scope, u.Owner, u.Host, u.PID, uint64(u.Session))
		switch why := u.without(x); {
		case why == "":
			f.ok(u.node, fmt.Sprintf("%s, by the override %s on the board", who, u.Override.ID))
		case u.Override != nil && slices.Contains(file, u.Override.ID):
			f.ok(u.node, fmt.Sprintf("%s, by the override %s of the file %s", who, u.Override.ID, o.Config.Emergency.File))
		case u.holds && u.Override != nil:
			f.warn(u.node, fmt.Sprintf("%s, without an override in force: %s", who, why),
				"it may have been when the lock was granted: what is granted stays; if not, look at that process: "+
					"lockkeeper locks break takes the lock from it")
		default:
			f.problem(u.node, fmt.Sprintf("%s, without an override in force: %s", who, why),
				fmt.Sprintf("Lockkeeper's clients make none without, and give it up when it ends: look at that process, "+
					"and at emergency.file on its host; then remove the request (delete %s), or the process", u.node))
		}
	}
	if len(x.urgent) == 0 && x.urgentErr == nil && x.survey.Complete {
		f.ok("", "no request is at emergency priority")
	}
}

func standing(u urgent) string {
	if u.holds {
		return "holds, or has held,"
	}
	return "waits"
}

// without says why no override on the board is behind a request; "" if one is.
func (u urgent) without(x *facts) string {
	if u.Override == nil {
		return "it names none"
	}
	if x.postedErr != nil {
		return fmt.Sprintf("it names %s, and what is on the board is not known: %v", u.Override.ID, x.postedErr)
	}
	for _, p := range x.posted {
		if o := p.Override; o.ID == u.Override.ID {
			switch {
			case !x.serverNow.Before(o.Until):
				return fmt.Sprintf("it names %s, which has ended at %s", o.ID, o.Until.UTC().Format(time.RFC3339))
			case !o.GrantsEmergency():
				return fmt.Sprintf("it names %s, which is of the kind %s", o.ID, o.Kind)
			case !(override.Match{Scope: o.Match.Scope}).Fits(override.Subject{Scope: u.scope}, 0):
				return fmt.Sprintf("it names %s, which is for %s", o.ID, o.Match.Scope)
			}
			return ""
		}
	}
	return fmt.Sprintf("it names %s, which is not on the board, nor in a file that was looked at", u.Override.ID)
}

// fileOverrides are the IDs of those of the overrides file that are in force.
func fileOverrides(o Options, now time.Time) (ids []string) {
	if o.Config == nil || o.Config.Emergency.File == "" {
		return nil
	}
	if _, err := os.Stat(o.Config.Emergency.File); err != nil {
		return nil
	}
	all, err := config.LoadOverrides(o.Config.Emergency.File, config.OverridesOptions{Config: o.Config})
	if err != nil {
		return nil
	}
	for _, one := range all.All {
		if now.Before(one.Until) {
			ids = append(ids, one.ID)
		}
	}
	return ids
}
