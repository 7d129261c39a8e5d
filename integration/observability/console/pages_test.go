package console

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// A leaf is a page to look at.
type leaf struct{ name, path string }

// pagesOf are those that are reached by links, with a lock to look at.
func pagesOf(scope string) []leaf {
	return []leaf{
		{"locks", "/"},
		{"locks-filtered", "/?q=town&state=waiting&sort=oldest"},
		{"locks-none", "/?q=nothing+like+that"},
		{"lock", "/locks/" + scope},
		{"lock-unknown", "/locks/never/heard/of"},
		{"waits", "/waits"},
		{"heat", "/heat"},
		{"jobs", "/jobs"},
		{"job", "/jobs/bake"},
		{"groups", "/groups"},
		{"group", "/groups/shards"},
		{"overrides", "/overrides"},
		{"approvals", "/approvals"},
		{"audit", "/audit"},
		{"events", "/events"},
		{"sign-in", "/sign-in"},
	}
}

// formsOf are pages with forms open.
func formsOf(w *town, scope string) []leaf {
	token := w.lockNow(scope).Holders[0].Token
	return []leaf{
		{"form-preempt", fmt.Sprintf("/locks/%s?do=preempt&token=%s", scope, token)},
		{"form-break", fmt.Sprintf("/locks/%s?do=break&token=%s", scope, token)},
		{"form-apply", "/overrides?do=apply"},
		{"form-clear", "/overrides?do=clear&id=INC-4411"},
		{"form-force", "/approvals?do=force&id=a-0000000000"},
		{"form-pause", "/jobs/bake?do=pause"},
	}
}

func (w *town) lockNow(scope string) lock.State {
	w.Helper()
	state, err := w.client.Lock(w.Context(), scope)
	require.NoError(w, err)
	return state
}

// busy has something to show on every page, and returns a lock with a history.
func (w *town) busy() (scope string) {
	w.Helper()
	scope = "cluster/orders/resource/users"
	earlier := w.request("rollup", lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}})
	earlier.holds()
	w.waits(scope, 0) // it is seen
	earlier.Cancel()
	require.Error(w, earlier.Err())
	w.request("nightly-compaction", lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 10, CleanupTimeout: 10 * time.Minute}, Message: "shard 14 of 20"}).holds()
	w.request("billing-export", lockguard.Requirement{Scope: "cluster/billing", Terms: priority.Terms{Priority: 20}}).holds()
	w.request("dunning", lockguard.Requirement{Scope: "cluster/billing", Terms: priority.Terms{Priority: 5}})
	w.request("sync-4711", lockguard.Requirement{Scope: "tenant/4711/sync", Terms: priority.Terms{LeaseTimeout: time.Millisecond}}).holds()
	for i := range 3 {
		w.request(fmt.Sprintf("indexer-%d", i), lockguard.Requirement{Scope: "search/index", Terms: priority.Terms{Mode: priority.Shared}}).holds()
	}
	w.request("daily-report", lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}, Message: "report for 2026-11-22"})
	w.waits(scope, 1)
	w.request("payments-hotfix", lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 80, Forceful: true, WaitingTimeout: new(time.Hour)}})
	w.request("a-service-with-quite-a-long-name-that-somebody-has-generated", lockguard.Requirement{
		Scope: "cluster/eu-central-1/namespace/customer-data-platform/resource/a-table-whose-name-is-long-as-well/partition/000000000000000000042", Terms: priority.Terms{Mode: priority.Shared},
	}).holds()
	// Two who wait for each other.
	left, right := w.request("mover", lockguard.Requirement{Scope: "warehouse/shelf-a"}), w.request("sorter", lockguard.Requirement{Scope: "warehouse/shelf-b"})
	a, b := left.holds(), right.holds() // before either asks for the other's
	w.also(left, a, "warehouse/shelf-b")
	w.also(right, b, "warehouse/shelf-a")
	w.jobs()
	w.group()
	w.question("payments are stuck")
	operator, err := emergency.NewOperator(w.client, w.trail)
	require.NoError(w, err)
	_, _, err = operator.Apply(w.Context(), []override.Override{{
		ID: "INC-4411", Kind: override.Freeze, Match: override.Match{Scope: "archive/*"}, Until: w.client.Now().Add(94 * time.Minute), By: "ana", Reason: "disk is full",
	}})
	require.NoError(w, err)
	_, err = operator.Break(w.Context(), "tenant/4711/sync", w.lockNow("tenant/4711/sync").Holders[0].Token, emergency.By{Name: "ben", Reason: "its host is gone"})
	require.NoError(w, err)
	w.lock(scope, func(l live.Lock) bool { return len(l.Waiters) == 2 && len(l.Holders[0].PreemptedBy) == 1 })
	w.lock("warehouse/shelf-a", func(l live.Lock) bool { return l.InCircle })
	return scope
}

// also has somebody wait for one lock while it holds another.
func (w *town) also(one *resident, hold *lockguard.Hold, scope string) {
	w.Helper()
	guard, err := lockguard.New(w.client, lockguard.WithOwner(one.name))
	require.NoError(w, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = guard.Do(hold.Context(), lockguard.Requirement{Scope: scope}, func(context.Context) error { return nil })
	}()
	w.Cleanup(func() { one.Cancel(); <-done })
}

// jobs have a history.
func (w *town) jobs() {
	w.Helper()
	ledger := w.client.TickLedger("baker")
	ctx := w.Context()
	first := w.client.Now().Add(-30 * time.Hour).Truncate(time.Hour)
	ends := []ticks.End{
		{Outcome: ticks.Ran, Took: 58 * time.Second, Waited: 1200 * time.Millisecond, Token: 7301200},
		{Outcome: ticks.Ran, Took: 61 * time.Second, Token: 7301300},
		{Outcome: ticks.Failed, Reason: "exit status 3: the oven is <cold>", Took: 2 * time.Second, Attempts: 3},
		{Outcome: ticks.Preempted, Reason: "preempted by payments-hotfix", Took: 20 * time.Second},
	}
	_, err := ledger.Begin(ctx, "bake", first)
	require.NoError(w, err)
	for i := range 14 {
		at := first.Add(time.Duration(i+1) * time.Hour)
		if i%5 == 4 {
			_, err := ledger.RecordSkip(ctx, "bake", "locked", at)
			require.NoError(w, err)
			continue
		}
		claim, err := ledger.Claim(ctx, "bake", at, ticks.Ask{})
		require.NoError(w, err)
		_, err = ledger.Finish(ctx, claim.Run, ends[i%len(ends)])
		require.NoError(w, err)
	}
	_, err = ledger.Claim(ctx, "bake", first.Add(20*time.Hour), ticks.Ask{})
	require.NoError(w, err)
	_, err = ledger.Begin(ctx, "sweep", first)
	require.NoError(w, err)
	_, err = ledger.Pause(ctx, "sweep", ticks.Pause{By: "ana", Reason: "the broom is broken (INC-4411)"})
	require.NoError(w, err)
}

// keeper has what its group gives to it.
type keeper struct{}

func (keeper) OnLocked(context.Context, group.LockGrant) {}
func (keeper) OnReleased(context.Context, string)        {}
func (keeper) OnDropped(context.Context, string)         {}

func (w *town) group() {
	w.Helper()
	shards, err := group.New(w.client.Client, group.Spec{Name: "shards", Locks: group.NumberedLocks("shard", 7)})
	require.NoError(w, err)
	for _, name := range []string{"node-a", "node-b"} {
		member, err := shards.Join(w.Context(), name, keeper{})
		require.NoError(w, err)
		w.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
			defer cancel()
			_ = member.Leave(ctx)
		})
	}
	harness.Eventually(w, func() bool {
		state, err := group.StateOf(w.Context(), w.client.Client, "shards")
		return err == nil && len(state.Members) == 2
	}, "two members")
}

//go:embed inspect.js
var inspect string

// A finding is what inspect.js says of a page.
type finding struct {
	Wrong []string `json:"wrong"`
	Least float64  `json:"least"` // contrast of all texts
	Texts int      `json:"texts"`
}

// A screen is what somebody sees a page on.
type screen struct {
	scheme string
	width  int64
}

func (s screen) String() string { return fmt.Sprintf("%s-%d", s.scheme, s.width) }

// screens are a desk's and a telephone's. Contrast does not depend on the width.
var screens = []screen{{"light", 1280}, {"light", 390}, {"dark", 390}}

// on shows the page on a screen.
func (b *tab) on(s screen) {
	b.Helper()
	b.scheme(s.scheme)
	b.size(s.width, 900)
}

// TestPages looks at all pages with inspect.js.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	scope := w.busy()
	guest, ana := open(t, w.url), open(t, w.url)
	signIn(ana)
	guest.allow("status of 404")
	pages := append(pagesOf(scope), leaf{"nothing", "/nothing/here"})
	least, texts := 21., 0
	look := func(b *tab, p leaf) {
		b.visit(p.path)
		for _, screen := range screens {
			b.on(screen)
			found := ask[finding](b, inspect)
			if len(found.Wrong) > 0 { // pages are alive: what is wrong stays so
				first := found.Wrong
				b.visit(p.path)
				found = ask[finding](b, inspect)
				found.Wrong = slices.DeleteFunc(found.Wrong, func(wrong string) bool { return !slices.Contains(first, wrong) })
			}
			for _, wrong := range found.Wrong {
				t.Errorf("%s, %s: %s", p.path, screen, wrong)
			}
			least, texts = min(least, found.Least), texts+found.Texts
			keep(b, fmt.Sprintf("%s-%s", p.name, screen))
		}
	}
	for _, p := range pages {
		look(guest, p)
	}
	for _, p := range append(formsOf(w, scope), leaf{"lock-operator", "/locks/" + scope}, leaf{"overrides-operator", "/overrides"}, leaf{"approvals-operator", "/approvals"}) {
		look(ana, p)
	}
	t.Logf("%d texts looked at, the least contrast is %.2f", texts, least)
	require.Greater(t, texts, 1000, "there is something to look at")
}

// keep makes a picture of the whole page, where somebody wants it.
func keep(b *tab, name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	ctx, cancel := b.within()
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(b, err)
	require.NoError(b, os.MkdirAll(*pictures, 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o600))
}

// watchFocus keeps what has had the focus, and whether one could see that.
const watchFocus = `(() => {
  window.hadFocus = [];
  const look = (e) => [getComputedStyle(e).outlineStyle, getComputedStyle(e).outlineWidth, getComputedStyle(e).outlineColor].join(" ");
  addEventListener("focusin", (e) => {
    const s = getComputedStyle(e.target), r = e.target.getBoundingClientRect();
    window.hadFocus.push({
      element: e.target, seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2,
      inside: r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth,
    });
  });
  return true;
})()`

// missed are those that the keyboard did not reach, or where one could not see that it had.
const missed = `(() => {
  const can = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, [tabindex='0']")]
    .filter((e) => !e.disabled && e.getClientRects().length);
  const name = (e) => e.outerHTML.slice(0, 120);
  const had = window.hadFocus.map((f) => f.element);
  return [
    ...can.filter((e) => !had.includes(e)).map((e) => "not reached: " + name(e)),
    ...window.hadFocus.filter((f) => !f.seen).map((f) => "has the focus, and does not show it: " + name(f.element)),
    ...window.hadFocus.filter((f) => !f.inside).map((f) => "has the focus outside of the window: " + name(f.element)),
    ...had.filter((e, i) => i > 0 && e !== can[0] && can.includes(e) && can.indexOf(e) < can.indexOf(had[i - 1])).map((e) => "out of order: " + name(e)),
  ];
})()`

func TestTheKeyboardReachesEverything(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	scope := w.busy()
	b := open(t, w.url)
	signIn(b)
	for _, width := range []int64{1280, 390} {
		b.size(width, 700)
		for _, p := range append(pagesOf(scope), formsOf(w, scope)...) {
			b.visit(p.path)
			ask[bool](b, watchFocus)
			// An update may come between two keys, or bring more to reach: then once more from where the focus is.
			var left []string
			for range 10 {
				n := ask[int](b, `document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, [tabindex='0']").length`)
				b.do(script(`window.hadFocus = []`))
				b.press(strings.Repeat("\t", n+1)) // the window itself has its turn, too
				if left = ask[[]string](b, missed); len(left) == 0 {
					break
				}
			}
			require.Empty(t, left, "%s at %d pixels", p.path, width)
		}
	}
	// The first key leads past the menu.
	b.visit("/")
	b.press("\t")
	require.Equal(t, "skip", ask[string](b, "document.activeElement.className"))
	b.press("\r")
	b.until("the content", `location.hash === "#main"`)
	b.press("\t")
	require.True(t, ask[bool](b, `document.activeElement.closest("main") !== null`))
	// A key that is written beside a field goes to it.
	b.visit("/")
	b.press("/")
	require.Equal(t, "q", ask[string](b, "document.activeElement.id"))
	b.press("billing\r")
	b.until("one lock", `document.querySelectorAll("#locks tbody tr").length === 1`)
}
