package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// done finds what the trail says of an act: that it was about to be done, and what
// has come of it.
func (w *town) done(action opstore.AuditAction, reason string) (intent, outcome opstore.AuditRecord) {
	w.Helper()
	for _, r := range w.records() {
		if r.Action != action || r.Reason != reason {
			continue
		}
		if r.Phase == opstore.AuditIntent {
			intent = r
		} else {
			outcome = r
		}
	}
	require.Equal(w, "ana", intent.By, "the trail says who: %s", action)
	require.Equal(w, "ana", outcome.By)
	require.Equal(w, intent.Act, outcome.Act, "both are of one act")
	require.Less(w, intent.Seq, outcome.Seq, "it is on record before it is done")
	return intent, outcome
}

func TestSomebodySignsInAndBreaksALock(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{Message: "lifts a <b>ship</b>"})
	token := holder.hold.Token()
	next := w.request("night-shift", lockguard.Requirement{Scope: scope})
	w.waits(scope, 1)

	b := open(t, w.url)
	b.visit("/?sort=scope")
	b.do(script(`document.querySelector("#locks a.scope").click()`))
	b.shows("Held by crane-driver; 1 request waits.")
	require.Contains(t, ask[string](b, "document.body.innerText"), "lifts a <b>ship</b>", "what a job says is text")
	b.click("Sign in")
	b.allow("status of 401")
	b.write("Name", "ana")
	b.write("Password", "a guess")
	b.press("\r")
	b.shows("Next step")
	b.write("Password", password)
	b.press("\r")
	b.shows("Held by crane-driver") // where she came from

	b.click("Break…")
	b.write("Reason", "its host has burnt down")
	b.write("Write the name of the lock", "town/harbour")
	b.allow("status of 422")
	b.click("Break the lock")
	b.shows("Not done")
	require.Equal(t, "its host has burnt down", ask[string](b, `document.getElementById("reason").value`), "what was written is kept")
	require.Equal(t, "true", ask[string](b, `document.getElementById("confirm").getAttribute("aria-invalid")`))
	require.Empty(t, w.records(), "nothing was done")
	b.write("Write the name of the lock", "/crane")
	b.click("Break the lock")
	b.shows("The lock of crane-driver is broken")
	b.shows("Held by night-shift; no waiters.")

	var lost *lockguard.LostError
	require.ErrorAs(t, holder.Err(), &lost)
	require.Greater(t, next.holds().Token(), token)
	intent, outcome := w.done(opstore.AuditBreak, "its host has burnt down")
	require.Equal(t, scope, intent.Scope)
	require.Equal(t, "crane-driver", intent.Victims[0].Owner)
	require.Equal(t, opstore.AuditDone, outcome.Result)
	b.click("Audit")
	b.until("both records", `document.querySelectorAll("#audit tbody tr").length === 2`)
	b.shows("its host has burnt down")
}

func TestSomebodyAsksAHolderToGo(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: 10 * time.Minute}})
	b := open(t, w.url)
	signIn(b)
	b.visit("/locks/" + scope)
	b.click("Preempt…")
	b.write("Reason", "a ship is on fire")
	b.click("Forceful: take the lock when the grace period is over")
	b.click("Preempt it")
	b.shows("crane-driver is preempted")
	b.shows("Preempted by")
	holder.Cancel() // it has cleaned up
	var overridden *lockguard.OverriddenError
	require.ErrorAs(t, holder.Err(), &overridden)
	b.shows("Free: no holder")
	harness.Eventually(t, func() bool { return len(w.records()) >= 2 }, "two records")
	w.done(opstore.AuditPreempt, "a ship is on fire")
	b.until("how that went", `document.querySelector("#preemptions tbody tr")?.innerText.includes("crane-driver")`)
}

func TestSomebodyAppliesAnOverrideAndClearsIt(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	b := open(t, w.url)
	signIn(b)
	b.click("Overrides")
	b.shows("No override is in force")
	b.click("Apply one…")
	b.write("ID", "INC-4411")
	b.do(script(`document.getElementById("kind").value = "freeze"`))
	b.write("Scope, a pattern", "town/*")
	b.write("For how long", "soon")
	b.write("Reason", "the disk is full")
	b.allow("status of 422")
	b.click("Put it in force")
	b.shows("Not done")
	require.Equal(t, []any{"INC-4411", "freeze", "town/*", "soon", "the disk is full"},
		ask[[]any](b, `["id", "kind", "scope", "for", "reason"].map(id => document.getElementById(id).value)`), "what was written is kept")
	b.do(script(`document.getElementById("for").value = ""`))
	b.write("For how long", "2h")
	b.click("Put it in force")
	b.shows("INC-4411 is in force until")
	b.until("the override", `document.getElementById("override-INC-4411")?.innerText.includes("the disk is full")`)
	posted, err := w.client.Overrides().List(t.Context())
	require.NoError(t, err)
	require.Len(t, posted, 1)
	require.Equal(t, override.Freeze, posted[0].Override.Kind)
	require.Equal(t, "ana", posted[0].Override.By)
	w.done(opstore.AuditOverrideApply, "the disk is full")

	b.click("Clear…")
	b.write("Reason", "the disk is larger")
	b.click("Clear it")
	b.shows("INC-4411 is cleared")
	b.shows("No override is in force")
	w.done(opstore.AuditOverrideClear, "the disk is larger")
	posted, err = w.client.Overrides().List(t.Context())
	require.NoError(t, err)
	require.Empty(t, posted)
}

func TestSomebodyDecidesAboutAnApproval(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	b := open(t, w.url)
	signIn(b)
	b.visit("/approvals")
	b.live()
	b.shows("Nothing waits for a decision")
	asked := w.question("payments are stuck") // while the page is open
	b.shows("payments are stuck")
	b.click("Approve…")
	b.write("Reason", "money first")
	b.click("Approve")
	b.shows("is approved")
	decision, err := asked.Decision(t.Context())
	require.NoError(t, err)
	require.True(t, decision.Approved)
	require.False(t, decision.Force)
	require.Equal(t, "ana", decision.By)
	require.Equal(t, "money first", decision.Reason)
	intent, _ := w.done(opstore.AuditApprovalDecide, "money first")
	require.Equal(t, asked.ID(), intent.Approval)
}

// question asks people whether a lock may be taken.
func (w *town) question(reason string) *opstore.OpenApproval {
	w.Helper()
	asked, err := w.client.Approvals().Open(w.Context(), opstore.ApprovalRequest{
		Scope: "town/harbour/crane", Reason: reason, Waited: 2 * time.Minute, Deadline: 13 * time.Minute,
		Requestor: opstore.AuditParty{ID: "1", Owner: "payments-hotfix", Host: "app-2", PID: 99, Priority: 80},
		Holders:   []opstore.AuditParty{{ID: "2", Owner: "crane-driver", Host: "db-7", PID: 4711, Priority: 10, Token: 7301444}},
	})
	require.NoError(w, err)
	return asked
}

func TestSomebodyPausesResumesAndRunsAJob(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{})
	b := open(t, w.url)
	for _, path := range []string{"/jobs/knead", "/jobs", "/approvals", "/overrides?do=apply", "/locks/" + scope, fmt.Sprintf("/locks/%s?do=break&token=%s", scope, holder.hold.Token())} {
		b.visit(path)
		require.Zero(t, ask[int](b, `document.querySelectorAll("main form[method=post] button, main .button").length`), "%s: not signed in", path)
	}
	signIn(b)
	for _, deed := range []struct{ open, press, reason, shows string }{
		{"Pause…", "Pause it", "the oven is cold", "knead is paused until somebody resumes it."},
		{"Resume…", "Resume it", "the oven is hot", "knead runs again from its next tick on."},
		{"Run now…", "Run it now", "guests are hungry", "A daemon has taken the request: knead runs"},
	} {
		b.visit("/jobs/knead")
		b.click(deed.open)
		b.write("Reason", deed.reason)
		b.click(deed.press)
		b.shows(deed.shows)
		if deed.press == "Pause it" {
			b.shows("Paused by ana")
		}
	}
	b.until("how it ran", `document.querySelector("main").innerText.includes("guests are hungry")`)
	b.click("Audit")
	b.until("six records", `document.querySelectorAll("#audit tbody tr").length === 6`)
	rows := ask[[]string](b, `[...document.querySelectorAll("#audit tbody tr")].map(r => r.innerText)`)
	count := map[string]int{}
	for _, row := range rows {
		require.Contains(t, row, "ana")
		require.Contains(t, row, "knead")
		for _, reason := range []string{"the oven is cold", "the oven is hot", "guests are hungry"} {
			if strings.Contains(row, reason) {
				count[reason]++
			}
		}
	}
	require.Equal(t, map[string]int{"the oven is cold": 2, "the oven is hot": 2, "guests are hungry": 2}, count, "what was about to be done, and what has come of it")
}

// Ports do not make another site of a host: the cookie is sent. It is the origin
// that is refused.
func TestAPageOfAnotherOriginDoesNothing(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{})
	token := holder.hold.Token()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>win a ship</title><p>hello`)
	}))
	t.Cleanup(evil.Close)
	b := open(t, w.url)
	signIn(b)
	b.allow("status of 403")
	b.do(chromedp.Navigate(evil.URL))
	b.do(script(form(w.url+"/locks/"+scope, url.Values{"do": {"break"}, "token": {token.String()}, "reason": {"x"}, "confirm": {scope}})))
	b.shows("a page of another site")
	require.Empty(t, w.records())
	require.NoError(t, holder.check(t))
	b.visit("/")
	b.shows("ana") // who is still signed in
	b.do(chromedp.Navigate(evil.URL))
	b.allow("frame-ancestors")
	b.allow("chrome-error://")
	b.allow("X-Frame-Options")
	b.do(script(`const f = document.createElement("iframe"); f.src = ` + quoted(w.url+"/") + `; f.onload = () => window.framed = true; document.body.append(f)`))
	b.until("the frame", "window.framed")
	require.True(t, ask[bool](b, `(() => { try { return document.querySelector("iframe").contentDocument === null } catch { return true } })()`), "nothing of ours is in a frame")
}

// form is a script that sends a form.
func form(action string, fields url.Values) string {
	code := `const f = document.createElement("form"); f.method = "post"; f.action = ` + quoted(action) + `; document.body.append(f);`
	for name := range fields {
		code += `{ const i = document.createElement("input"); i.name = ` + quoted(name) + `; i.value = ` + quoted(fields.Get(name)) + `; f.append(i) }`
	}
	return code + `f.submit()`
}

// check says whether the lock is still held.
func (one *resident) check(t *testing.T) error {
	t.Helper()
	select {
	case <-one.Done():
		return fmt.Errorf("%s does not hold its lock any more: %w", one.name, one.Err())
	default:
	}
	state, err := one.w.client.Lock(t.Context(), "town/harbour/crane")
	require.NoError(t, err)
	require.Len(t, state.Holders, 1)
	require.Equal(t, one.name, state.Holders[0].Owner)
	require.Empty(t, state.Holders[0].PreemptedBy)
	return nil
}

func TestAllOfItWorksWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{})
	other := w.request("baker", lockguard.Requirement{Scope: "town/bakery", Terms: priority.Terms{Mode: priority.Shared}})
	other.holds()
	w.waits(scope, 0)
	w.waits("town/bakery", 0)
	b := open(t, w.url)
	b.withoutJavaScript()
	signIn(b)
	b.write("Filter by lock", "bak")
	b.press("\r")
	b.until("one lock", `location.search === "?q=bak" && document.querySelectorAll("#locks tbody tr").length === 1`)
	b.click("held")
	b.until("still filtered", `location.search.includes("q=bak") && location.search.includes("state=held")`)
	b.visit("/locks/" + scope)
	b.click("Break…")
	b.write("Reason", "by hand")
	b.write("Write the name of the lock", scope)
	b.press("\r")
	b.shows("The lock of crane-driver is broken")
	w.done(opstore.AuditBreak, "by hand")
	require.Error(t, holder.Err())
	b.allow("status of 404") // there is no such job, and no such group
	for _, p := range pagesOf(scope) {
		b.visit(p.path)
		require.NotEmpty(t, ask[string](b, `document.querySelector("main h1").textContent`))
	}
	b.visit("/")
	b.click("Sign out")
	b.shows("Sign in")
}
