package picture_test

import (
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

func request(id, owner string, level priority.Level, spells ...live.Spell) live.Row {
	return live.Row{ID: id, Owner: owner, Host: "batch-3", PID: 4711, Priority: level, Mode: priority.Exclusive, Message: "for " + owner, Spells: spells}
}

func waits(from, to float64, end live.SpellEnd) live.Spell {
	return spell(live.SpellWaiting, 0, from, to, end)
}

func holds(token lock.Token, from, to float64, end live.SpellEnd) live.Spell {
	return spell(live.SpellHolding, token, from, to, end)
}

func leaves(token lock.Token, from, to float64, end live.SpellEnd) live.Spell {
	return spell(live.SpellLeaving, token, from, to, end)
}

// spell makes one; to 0: it goes on.
func spell(kind live.SpellKind, token lock.Token, from, to float64, end live.SpellEnd) live.Spell {
	p := live.Spell{Kind: kind, From: at(from), Token: token, End: end}
	if to != 0 {
		p.To = at(to)
	}
	return p
}

// contention is what a quarter of a minute of a busy lock looks like.
func contention() live.Timeline {
	return live.Timeline{
		Scope: "shop/orders", From: at(0), To: at(16), Known: at(0.8),
		Rows: []live.Row{
			request("a", "compact", 20, holds(41, -3, 4, live.EndPreempted), leaves(41, 4, 5.2, live.EndPreempted)),
			request("b", "backup", 50, waits(2, 6.4, live.EndGranted), holds(43, 6.4, 9, live.EndReleased)),
			request("c", "hotfix", 90, waits(4, 5.2, live.EndGranted), holds(42, 5.2, 6.4, live.EndReleased)),
			request("d", "compact", 20, waits(5, 9, live.EndGranted), holds(44, 9, 11, live.EndPreempted), leaves(44, 11, 13, live.EndTaken)),
			request("e", "a report with a name that is far too long for any column of a picture", 0, waits(7, 10.5, live.EndLeft)),
			request("f", "migration", 90, waits(11, 13, live.EndGranted), holds(45, 13, 14.5, live.EndPreempted), leaves(45, 14.5, 0, "")),
			request("g", "ana", priority.Emergency, waits(14.5, 0, "")),
			request("h", "<script>alert(1)</script>", 1, waits(12, 0, "")),
		},
		Marks: []live.Mark{
			{At: at(4), Kind: live.MarkPreempt, From: "c", To: "a"},
			{At: at(5.2), Kind: live.MarkHandover, From: "a", To: "c"},
			{At: at(6.4), Kind: live.MarkHandover, From: "c", To: "b"},
			{At: at(9), Kind: live.MarkHandover, From: "b", To: "d"},
			{At: at(11), Kind: live.MarkPreempt, From: "f", To: "d"},
			{At: at(13), Kind: live.MarkTakeover, From: "f", To: "d"},
			{At: at(14.5), Kind: live.MarkPreempt, From: "g", To: "f"},
		},
	}
}
