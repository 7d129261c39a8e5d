package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// -update writes the golden files anew, to be read in the diff.
var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func request(owner string, p priority.Level, since time.Duration) lock.Contender {
	return lock.Contender{
		ID: "id-" + owner, Identity: priority.Identity{Owner: owner, Host: "web-1", PID: 4711}, Terms: priority.Terms{
			Priority:     p,
			LeaseTimeout: time.Hour,
		}, Joined: ago(since), Since: ago(since),
		Remaining: priority.Remaining{LeaseLeft: time.Hour - since}, Token: 7,
	}
}

func lockOf(scope string, holder lock.Contender, waiters ...lock.Contender) lock.State {
	s := lock.State{Scope: scope, At: noon, Holders: []lock.Contender{holder}, Waiters: waiters}
	for i := range waiters {
		waiters[i].Position, waiters[i].Token = i+1, 0
	}
	return s
}

// night is what an operator sees.
func night() []lock.State {
	reindex := request("nightly-reindex", 40, 14*time.Minute)
	reindex.Message, reindex.CleanupTimeout = "rebuilds all of the indexes", time.Minute
	hotfix := request("hotfix-migrate", 90, 12*time.Second)
	hotfix.Forceful = true
	reindex.PreemptedBy = []lock.Preemptor{{ID: hotfix.ID, Owner: hotfix.Owner, Priority: 90, Reason: priority.Outranked, Forceful: true, Grace: time.Minute, At: ago(12 * time.Second)}}
	over := request("compact 鎖🔒", 10, 2*time.Hour)
	over.LeaseLeft = 0
	reader := func(i int) lock.Contender {
		c := request(fmt.Sprintf("reader-%d", i), 0, time.Duration(i)*time.Second)
		c.Mode = priority.Shared
		return c
	}
	shared := lockOf("db/reports", reader(3), request("evil\x1b[2J\u202e\u009bname", 0, 2*time.Second))
	shared.Holders = append(shared.Holders, reader(2), reader(1))
	left, right := request("left", 0, 40*time.Second), request("right", 0, 50*time.Second)
	forRight, forLeft := request("left-2", 0, 30*time.Second), request("right-2", 0, 20*time.Second)
	forRight.Under, forLeft.Under = []string{left.ID}, []string{right.ID}
	return []lock.State{
		lockOf("cluster/carts/resource/a-very-long-name-of-a-resource/shards/0017", over),
		lockOf("circle/left", left, forLeft),
		lockOf("circle/right", right, forRight),
		{Scope: "db/archive"},
		{Scope: "db/broken", Damage: "its node is nonsense"},
		{Scope: "db/crashed", At: noon, Delays: []lock.Delay{{ID: "x", Owner: "etl", LockDelay: time.Minute, Until: noon.Add(20 * time.Second)}}},
		lockOf("db/orders", reindex, hotfix, request("stats-rollup", 40, 90*time.Second)),
		shared,
	}
}

func seen(width, height int) View {
	states := night()
	return View{}.Resize(width, height).See(live.NewSnapshot(states[1:], noon).AsOf(noon)).See(live.NewSnapshot(sorted(states), noon))
}

func sorted(states []lock.State) []lock.State {
	out := append([]lock.State{}, states[1:3]...)
	return append(append(out, states[0]), states[3:]...)
}

func press(v View, keys string) View {
	var k Keyboard
	for _, key := range append(k.Type([]byte(keys)), k.Settle()...) {
		v = v.Press(key)
	}
	return v
}

func golden(t *testing.T, name string, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func drawn(v View, look Look) string { return strings.Join(v.Draw(look), "\n") + "\n" }

func TestScreens(t *testing.T) {
	history := live.Timeline{Scope: "db/orders", From: ago(10 * time.Minute), To: noon, Known: ago(time.Hour), Rows: []live.Row{
		{ID: "id-nightly-reindex", Owner: "nightly-reindex", Priority: 40, Spells: []live.Spell{
			{Kind: live.SpellHolding, From: ago(14 * time.Minute), To: ago(12 * time.Second), End: live.EndPreempted},
			{Kind: live.SpellLeaving, From: ago(12 * time.Second)},
		}},
		{ID: "id-hotfix-migrate", Owner: "hotfix-migrate", Priority: 90, Spells: []live.Spell{{Kind: live.SpellWaiting, From: ago(12 * time.Second)}}},
	}, Marks: []live.Mark{{At: ago(12 * time.Second), Kind: live.MarkPreempt, From: "id-hotfix-migrate", To: "id-nightly-reindex"}}}
	orders := func(w, h int) View { return press(seen(w, h), "/orders\r\r").Recall(history) }
	blind := live.NewSnapshot(sorted(night()), noon)
	blind.Blind = &live.Blind{Since: ago(90 * time.Second), Reason: "no server of zk1:2181,zk2:2181 can be reached"}
	for name, v := range map[string]View{
		"list_80":       seen(80, 24),
		"list_200":      seen(200, 50),
		"list_40":       seen(40, 14),
		"list_chosen":   press(seen(80, 24), "jj"),
		"by_state":      press(seen(80, 24), "ss"),
		"by_scope_back": press(seen(80, 24), "sssr"),
		"typing":        press(seen(80, 24), "/READER"),
		"filtered":      press(seen(80, 24), "/db/\r"),
		"no_match":      press(seen(80, 24), "/nothing\r"),
		"lock_80":       orders(80, 60),
		"lock_200":      orders(200, 50),
		"lock_40":       orders(40, 90),
		"lock_scrolled": press(orders(80, 24), "\x1b[6~"),
		"circle":        press(seen(80, 24), "/left\r\r"),
		"help":          press(seen(80, 30), "?"),
		"blind":         seen(80, 24).See(blind),
		"empty":         View{}.Resize(80, 8).See(live.NewSnapshot(nil, noon)),
		"nothing_seen":  View{}.Resize(80, 8),
		"tiny":          seen(10, 4),
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, drawn(v, Look{}))
			fits(t, v)
		})
	}
	golden(t, "ascii", drawn(orders(80, 60), Look{ASCII: true}))
	golden(t, "colours", strings.ReplaceAll(drawn(seen(80, 24), Look{Attributes: true, Colour: true}), "\x1b", "^"))
	golden(t, "no_colours", strings.ReplaceAll(drawn(seen(80, 24), Look{Attributes: true}), "\x1b", "^"))
	golden(t, "text", Text(live.NewSnapshot(sorted(night()), noon)))
}

// tenants are locks whose names begin and end alike.
func tenants() View {
	var states []lock.State
	for i := range 7 {
		states = append(states, lockOf(fmt.Sprintf("tenant/%d/billing", i), request("importer", 20, time.Minute)))
	}
	states = append(states, lockOf("tenant/6/billing/archive", request("importer", 20, time.Minute)), lockOf("cluster/orders/resource/users", request("reindex", 20, time.Minute)))
	return View{order: ByScope}.See(live.NewSnapshot(states, noon))
}

func TestScopesThatBeginAndEndAlikeAreDistinguished(t *testing.T) {
	golden(t, "tenants_60", drawn(tenants().Resize(60, 14), Look{}))
	golden(t, "tenants_40", drawn(tenants().Resize(40, 14), Look{}))
	golden(t, "tenants_110", drawn(tenants().Resize(110, 14), Look{}))

	// at every width that shows what differs, each row has a label of its own, and it fits
	names := []string{
		"tenant/1/billing", "tenant/2/billing", "tenant/10/billing", "tenant/100/billing", "tenant/1/invoices", "a/b", "a", "tenant/10",
		"region/eu-west/shard/0001/compaction", "region/eu-west/shard/0002/compaction", "region/eu-east/shard/0001/compaction", "region/us-west/shard/0001/compaction",
		"鎖/1/very-long-name-of-a-resource", "鎖/2/very-long-name-of-a-resource", "no-slash-at-all-in-this-name-1-x", "no-slash-at-all-in-this-name-2-x",
	}
	for _, look := range []Look{{}, {ASCII: true}} {
		for columns := 1; columns < 45; columns++ {
			labels := look.labels(names, columns)
			require.Len(t, labels, len(names))
			different := map[string]bool{}
			for name, label := range labels {
				require.LessOrEqual(t, lettering.Columns(label), columns, "%s at %d", name, columns)
				if lettering.Columns(name) <= columns {
					require.Equal(t, name, label)
				}
				different[label] = true
			}
			if columns >= 15 {
				require.Len(t, different, len(names), "at %d: %v", columns, labels)
			}
		}
	}
}

func TestWideScreenHasLongTitlesOnlyWhereNothingIsCutForThem(t *testing.T) {
	v := View{order: ByScope}.See(live.NewSnapshot([]lock.State{
		lockOf("cluster/orders/resource/users", request("nightly-reindex-of-all", 20, time.Minute), request("hotfix-migration-17", 90, time.Second)),
	}, noon))
	text := drawn(v.Resize(110, 8), Look{})
	require.Contains(t, text, " cluster/orders/resource/users ")
	require.NotContains(t, text, "…")
	require.NotContains(t, text, "LEASE LEFT")
	require.Contains(t, drawn(v.Resize(140, 8), Look{}), "LEASE LEFT")
}

// fits requires that a terminal has room for what is drawn, and is not moved by it.
func fits(t *testing.T, v View) {
	t.Helper()
	lines := v.Draw(Look{})
	require.LessOrEqual(t, len(lines), v.height)
	for _, line := range lines {
		require.LessOrEqual(t, lettering.Columns(line), v.width, "%q", line)
		require.True(t, utf8.ValidString(line))
		require.False(t, strings.ContainsFunc(line, unicode.IsControl), "%q", line)
	}
}

func TestChosenLockStaysChosenWhereverItIs(t *testing.T) {
	v := press(seen(80, 24), "jjj")
	chosen := v.chosen
	require.NotEqual(t, v.rows[0].Scope, chosen)
	for _, keys := range []string{"s", "r", "s", "s", "r"} {
		v = press(v, keys)
		require.Equal(t, chosen, v.rows[v.at].Scope)
		require.Contains(t, drawn(v, Look{}), "> ")
	}

	// until it is gone: then the one beside it is
	at := v.at
	states := sorted(night())
	for i, s := range states {
		if s.Scope == chosen {
			states = append(states[:i:i], states[i+1:]...)
			break
		}
	}
	v = v.See(live.NewSnapshot(states, noon))
	require.Equal(t, min(at, len(v.rows)-1), v.at)

	// and who has chosen nothing stays at the top
	v = seen(80, 24)
	require.Zero(t, press(v, "s").at)
	require.Zero(t, press(v, "jjg").at)
}

func TestListScrollsWithWhatIsChosen(t *testing.T) {
	var states []lock.State
	for i := range 100 {
		states = append(states, lockOf(fmt.Sprintf("lock/%03d", i), request("a", 0, time.Minute)))
	}
	v := View{}.Resize(80, 24).See(live.NewSnapshot(states, noon))
	shows := func(v View, row int) {
		t.Helper()
		require.Contains(t, drawn(v, Look{}), fmt.Sprintf("> lock/%03d", row))
	}
	shows(v, 0)
	v = press(v, "G")
	shows(v, 99)
	v = press(v, "\x1b[5~\x1b[A")
	shows(v, 99-(v.room()-1)-1)
	v = press(v, "\x1b[6~\x1b[6~\x1b[6~jj")
	shows(v, 99)
	v = v.Resize(80, 10)
	shows(v, 99)
	shows(press(v, "g"), 0)
}

func TestKeys(t *testing.T) {
	for typed, keys := range map[string][]Key{
		"q":                  {{Rune: 'q'}},
		"é鎖":                 {{Rune: 'é'}, {Rune: '鎖'}},
		"\x1b[A\x1bOB":       {{Is: Up}, {Is: Down}},
		"\x1b[5~\x1b[6~":     {{Is: PageUp}, {Is: PageDown}},
		"\x1b[1;5A":          {{Is: Up}},
		"\x1b[200~x":         {{Rune: 'x'}}, // what is not known is passed over
		"\x1b":               {{Is: Esc}},
		"\x1b\x1b":           {{Is: Esc}, {Is: Esc}},
		"\x1bq":              {{Is: Esc}, {Rune: 'q'}},
		"\r\x7f\x03\x15\x0c": {{Is: Enter}, {Is: Backspace}, {Is: Interrupt}, {Is: Erase}, {Is: Redraw}},
		"\xff\x01":           nil,
	} {
		var whole, bytewise Keyboard
		require.Equal(t, keys, append(whole.Type([]byte(typed)), whole.Settle()...), "%q", typed)
		var each []Key
		for _, b := range []byte(typed) {
			each = append(each, bytewise.Type([]byte{b})...)
		}
		require.Equal(t, keys, append(each, bytewise.Settle()...), "%q", typed)
	}
}

func TestWhoTypesAFilterDoesNotLeave(t *testing.T) {
	v := press(seen(80, 24), "/qs?r")
	require.False(t, v.Over())
	require.Equal(t, "qs?r", v.filter)
	v = press(v, "\x7f\x7f")
	require.Equal(t, "qs", v.filter)
	require.True(t, press(v, "\x03").Over())
	require.Empty(t, press(v, "\x1b").filter)
	require.Empty(t, press(v, "\x15").filter)
	require.True(t, press(v, "\rq").Over())
}

// Whatever keys are pressed and whatever strangers call themselves, the screen holds
// what is drawn, and the terminal does nothing else.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("jj\r?\x1b\x1b/x\r"), "db/x", "\x1b[2J", "\u202e鎖\U0001f512", 80, 24)
	f.Add([]byte("/\x1b[A\x1b[999999999999999999999999999999999~\xff"), "e\u0301\u0301", "\n\r\t", "\x00", 40, 10)
	f.Add([]byte("\rG ?"), strings.Repeat("鎖", 300), strings.Repeat("a", 1000), "", 3, 2)
	f.Fuzz(func(t *testing.T, keys []byte, scope, owner, message string, width, height int) {
		if len(keys) > 200 || len(scope)+len(owner)+len(message) > 4000 {
			return
		}
		width, height = width&0xff, height&0x3f
		holder, waiter := request(owner, 1, time.Minute), request(message, 2, time.Second)
		holder.Message, holder.Host, waiter.Message = message, owner, scope
		states := []lock.State{lockOf(scope, holder, waiter)}
		v := View{}.Resize(width, height).See(live.NewSnapshot(states, noon))
		fits(t, v)
		var k Keyboard
		for _, b := range keys {
			for _, key := range k.Type([]byte{b}) {
				v = v.Press(key)
				if v.Open() != "" {
					v = v.Recall(live.Timeline{Scope: scope, From: ago(time.Hour), To: noon, Rows: []live.Row{{ID: holder.ID, Owner: owner, Spells: []live.Spell{{Kind: live.SpellHolding, From: ago(time.Minute)}}}}})
				}
				fits(t, v)
			}
		}
		require.LessOrEqual(t, len(k.rest), longest)
		text := Text(live.NewSnapshot(states, noon))
		require.False(t, strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unicode.IsControl), "%q", text)
		require.Len(t, strings.Split(text, "\n"), 6)
	})
}
