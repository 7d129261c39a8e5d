package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// watchText keeps when a page has a text for the first time.
const watchText = `(() => {
  window.firstSeen = {};
  const look = () => {
    const at = Date.now();
    for (const name of document.getElementById("main").textContent.matchAll(/\b(?:joins|gets)-\d+\b/g)) window.firstSeen[name[0]] ??= at;
    const holder = document.querySelector(".tiles h3");
    if (holder) window.firstSeen["holder " + holder.textContent.trim()] ??= at;
  };
  new MutationObserver(look).observe(document.documentElement, {subtree: true, childList: true, characterData: true});
  return true;
})()`

// A page that is late is found by what is printed: how late depends on the machine.
// The clocks are one: the server, the browser and the test are on this machine. A
// time is from what the server says of its node to when the document has changed.
func TestAnEventShowsInThePageSoon(t *testing.T) {
	const half = 25
	w := newTown(t)
	scope := "town/harbour/crane"
	first := w.request("gets-0", lockguard.Requirement{Scope: scope})
	first.holds()
	w.waits(scope, 0)
	b := open(t, w.url)
	b.visit("/locks/" + scope)
	b.live()
	ask[bool](b, watchText)

	var took []time.Duration
	seen := func(name string, happened time.Time) {
		b.until(name, fmt.Sprintf("window.firstSeen[%q]", name))
		took = append(took, time.UnixMilli(int64(ask[float64](b, fmt.Sprintf("window.firstSeen[%q]", name)))).Sub(happened))
	}
	queue := []*resident{first}
	for i := range half { // they come one after the other
		name := fmt.Sprintf("joins-%d", i+1)
		queue = append(queue, w.request(name, lockguard.Requirement{Scope: scope}))
		l := w.waits(scope, i+1)
		seen(name, l.Waiters[i].WaitingSince)
	}
	for i := range half { // and get the lock one after the other
		queue[i].Cancel()
		queue[i+1].holds()
		l := w.waits(scope, half-i-1)
		seen("holder "+queue[i+1].name, l.Holders[0].Since)
	}
	slices.Sort(took)
	require.Len(t, took, 2*half)
	t.Logf("from event to document, %d updates: p50 %s, p90 %s, p99 %s", len(took), took[half], took[2*half*9/10], took[len(took)-1])
}

func TestHalfTypedTextSurvivesUpdates(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{})
	hold := holder.hold
	b := open(t, w.url)
	signIn(b)
	b.size(1280, 500)
	b.visit(fmt.Sprintf("/locks/%s?do=break&token=%s", scope, hold.Token()))
	b.live()
	b.write("Reason", "its host is bur")
	b.write("Write the name", "town/har")
	b.write("Reason", "")
	b.do(script(`document.getElementById("reason").setSelectionRange(4, 8)`), script(`scrollTo(0, 120)`))
	same := func() {
		t.Helper()
		require.Equal(t, []any{"its host is bur", "town/har", "reason", 4., 8., 120.},
			ask[[]any](b, `[document.getElementById("reason").value, document.getElementById("confirm").value, document.activeElement.id, document.activeElement.selectionStart, document.activeElement.selectionEnd, scrollY]`))
	}
	same()
	for i := range 5 {
		name := fmt.Sprintf("ship-%d", i)
		w.request(name, lockguard.Requirement{Scope: scope})
		b.shows(name)
		same()
	}
	b.press("\x1b")
	holder.Cancel()
	b.shows("no longer holds the lock") // the form says that it is about somebody who has gone
	same()
	b.press("ship")
	require.Equal(t, "its ship is bur", ask[string](b, `document.getElementById("reason").value`), "one can go on writing where one was")
}

// Over a slow network each of the scripts may come long after the others.
func TestAPageIsLiveHoweverLateItsScriptsCome(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	target, err := url.Parse(w.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	for _, late := range []string{"htmx.", "hx-sse.", "console."} {
		slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/static/"+late) && strings.HasSuffix(r.URL.Path, ".js") {
				select {
				case <-time.After(200 * time.Millisecond):
				case <-r.Context().Done():
				}
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(slow.Close)
		b := open(t, slow.URL)
		b.visit("/")
		b.live()
		b.do(chromedp.Navigate("about:blank")) // ends the stream, for which the server waits
	}
}
