package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// gcView is what was removed in JSON and YAML. The names of fields are a promise
// to scripts.
type gcView struct {
	DryRun       bool         `json:"dry_run"`  // nothing was removed
	Older        int64        `json:"older_ms"` // for how long nobody has used what is removed
	At           time.Time    `json:"at"`       // server's clock
	Removed      []idleView   `json:"removed"`
	Left         []gcLeftView `json:"left"`
	Transactions int          `json:"transactions"`

	Unreadable []recipes.Unreadable `json:"unreadable,omitempty"`
}

type idleView struct {
	Scope      string    `json:"scope"`
	LastLocked time.Time `json:"last_locked"`
}

type gcLeftView struct {
	idleView
	Why recipes.LeftReason `json:"why"` // in_use, recent, released, news, unclean, newer, came or denied
}

func newGCView(found recipes.Collection, o recipes.IdleOptions) gcView {
	v := gcView{
		DryRun: o.DryRun, Older: found.Older.Milliseconds(), At: found.At.UTC(), Transactions: found.Transactions, Unreadable: found.Unreadable,
		Removed: make([]idleView, len(found.Removed)), Left: make([]gcLeftView, len(found.Left)),
	}
	for i, x := range found.Removed {
		v.Removed[i] = idleView{x.Scope, x.Granted.UTC()}
	}
	for i, x := range found.Left {
		v.Left[i] = gcLeftView{idleView{x.Scope, x.Granted.UTC()}, x.Why}
	}
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
	pg.paragraph("", "%s %d of %s: nobody has used them for %s (%s)", did, len(v.Removed), count(all, "scope"), older, clock(v.At))
	if all == 0 {
		return
	}
	pg.line("")
	g := pg.grid(1)
	g.row("RESULT", "SCOPE", "LAST LOCKED", "WHY")
	rows := func(result string, n int, more string, row func(i int) (idleView, string)) {
		shown := n
		if !pg.wide && n > fewRows {
			shown = fewRows
		}
		for i := range shown {
			x, why := row(i)
			g.row(result, x.Scope, human(v.At.Sub(x.LastLocked))+" ago", why)
		}
		if n > shown {
			g.row("", fmt.Sprintf("… and %d more%s", n-shown, more), "", "")
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
	why          recipes.LeftReason
	words, short string
}{
	{recipes.LeftDenied, "its bucket's ACL does not let this user delete it: see lockkeeper doctor", "denied"},
	{recipes.LeftCame, "somebody came just now", "used just now"},
	{recipes.LeftNewer, "a newer lockkeeper has written it: upgrade this one", "of a newer lockkeeper"},
	{recipes.LeftNews, "it tells somebody that he has lost the lock, and to whom, for two minutes", "tells of a loss"},
	{recipes.LeftUnclean, "its last holder ended uncleanly, and it has a lock-delay", "lock-delay"},
	{recipes.LeftReleased, "its last request may have ended since", "may have been used since"},
	{recipes.LeftRecent, "used since", "used since"},
	{recipes.LeftInUse, "held, or waited for", "held, or waited for"},
}
