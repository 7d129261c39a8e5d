package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
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

// slowly serves a console over a slow network: some answers wait for something.
func slowly(t *testing.T, of string, wait func(*http.Request) <-chan time.Time) string {
	t.Helper()
	target, err := url.Parse(of)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if late := wait(r); late != nil {
			select {
			case <-late:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	return slow.URL
}

// The first message brings the whole content anew: over a slow network somebody has begun to write before that.
func TestHalfTypedTextSurvivesUpdates(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{})
	late := make(chan time.Time)
	url := slowly(t, w.url, func(r *http.Request) <-chan time.Time {
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			return late
		}
		return nil
	})
	live := sync.OnceFunc(func() { close(late) })
	t.Cleanup(live)
	b := open(t, url)
	signIn(b)
	b.size(1280, 500)
	b.visit(fmt.Sprintf("/locks/%s?do=break&token=%s", scope, holder.hold.Token()))
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
		if i == 0 {
			w.waits(scope, 1)
			require.NotContains(t, ask[string](b, "document.body.innerText"), name, "nothing has come yet")
			live()
		}
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
	for _, late := range []string{"htmx.", "hx-sse.", "console."} {
		b := open(t, slowly(t, w.url, func(r *http.Request) <-chan time.Time {
			if strings.HasPrefix(r.URL.Path, "/static/"+late) && strings.HasSuffix(r.URL.Path, ".js") {
				return time.After(200 * time.Millisecond)
			}
			return nil
		}))
		b.visit("/")
		b.live()
		b.do(chromedp.Navigate("about:blank")) // ends the stream, for which the server waits
	}
}
