package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// gcView is what was removed in JSON and YAML. The names of fields are a promise
// to scripts.
type gcView struct {
	DryRun       bool         `json:"dry_run"`  // nothing was removed
	Older        int64        `json:"older_ms"` // for how long it has not been used
	At           time.Time    `json:"at"`       // server's clock
	Removed      []idleView   `json:"removed"`
	Left         []gcLeftView `json:"left"`
	Transactions int          `json:"transactions"`

	Unreadable []gcUnreadable `json:"unreadable,omitempty"`

	several bool // ensembles
}

// gcDone is what was done on an ensemble.
type gcDone struct {
	on *ensemble
	lock.Collection
}

type gcUnreadable struct {
	lock.Unreadable
	Ensemble string `json:"ensemble,omitempty"` // "" if there is one alone
}

type idleView struct {
	Scope      string    `json:"scope"`
	Ensemble   string    `json:"ensemble,omitempty"` // "" if there is one alone
	LastLocked time.Time `json:"last_locked"`

	at time.Time // of the look, by the clock there
}

type gcLeftView struct {
	idleView
	Why lock.LeftReason `json:"why"` // in_use, recent, released, news, unclean, newer, came or denied
}

// newGCView joins what was done on ensembles: one at least.
func newGCView(done []*gcDone, o lock.IdleOptions) gcView {
	first := done[0]
	v := gcView{
		DryRun: o.DryRun, Older: first.Older.Milliseconds(), At: first.At.UTC(), Removed: []idleView{}, Left: []gcLeftView{},
		several: first.on.name != "",
	}
	for _, one := range done {
		v.Transactions += one.Transactions
		view := func(x lock.IdleScope) idleView {
			return idleView{x.Scope, one.on.name, x.Granted.UTC(), one.At}
		}
		for _, x := range one.Removed {
			v.Removed = append(v.Removed, view(x))
		}
		for _, x := range one.Left {
			v.Left = append(v.Left, gcLeftView{view(x.IdleScope), x.Why})
		}
		for _, u := range one.Unreadable {
			v.Unreadable = append(v.Unreadable, gcUnreadable{u, one.on.name})
		}
	}
	slices.SortStableFunc(v.Removed, func(a, b idleView) int { return strings.Compare(a.Scope, b.Scope) })
	slices.SortStableFunc(v.Left, func(a, b gcLeftView) int { return strings.Compare(a.Scope, b.Scope) })
	return v
}

// fewRows is how many scopes of a kind a table shows that is not wide.
const fewRows = 20

func writeGC(pg page, v gcView) {
	older := human(time.Duration(v.Older) * time.Millisecond)
	did, all := "removed", len(v.Removed)+len(v.Left)
	if v.DryRun {
		did = "would remove"
	}
	pg.paragraph("", "%s %d of %s: not used for %s (%s)",
		did, len(v.Removed), words.Count(all, "scope"), older, clock(v.At))
	if all == 0 {
		return
	}
	pg.line("")
	g := pg.grid(1)
	draw := func(result, scope, ensemble, locked, why string) {
		if v.several {
			g.row(result, scope, ensemble, locked, why)
		} else {
			g.row(result, scope, locked, why)
		}
	}
	draw("RESULT", "SCOPE", "ENSEMBLE", "LAST LOCKED", "WHY")
	rows := func(result string, n int, more string, row func(i int) (idleView, string)) {
		shown := n
		if !pg.wide && n > fewRows {
			shown = fewRows
		}
		for i := range shown {
			x, why := row(i)
			draw(result, x.Scope, x.Ensemble, human(x.at.Sub(x.LastLocked))+" ago", why)
		}
		if n > shown {
			draw("", fmt.Sprintf("… and %d more%s", n-shown, more), "", "", "")
		}
	}
	rows(did, len(v.Removed), "", func(i int) (idleView, string) { return v.Removed[i], "-" })
	for _, r := range gcReasons {
		left := slices.DeleteFunc(slices.Clone(v.Left), func(x gcLeftView) bool { return x.Why != r.why })
		rows("left", len(left), ": "+r.short, func(i int) (idleView, string) { return left[i].idleView, r.words })
	}
	g.draw()
}

// gcReasons are the reasons to leave a scope, in the order of a table.
var gcReasons = []struct {
	why          lock.LeftReason
	words, short string
}{
	{lock.LeftDenied, "its bucket's ACL does not let this user delete it: see lockkeeper doctor", "denied"},
	{lock.LeftCame, "somebody came just now", "used just now"},
	{lock.LeftNewer, "a newer lockkeeper has written it: upgrade this one", "of a newer lockkeeper"},
	{lock.LeftNews, "it tells somebody that he has lost the lock, and to whom, for two minutes", "tells of a loss"},
	{lock.LeftUnclean, "its last holder ended uncleanly, and it has a lock-delay", "lock-delay"},
	{lock.LeftReleased, "its last request may have ended since", "may have been used since"},
	{lock.LeftRecent, "used since", "used since"},
	{lock.LeftInUse, "held, or waited for", "held, or waited for"},
}
