package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Over a slow network somebody has begun to write before the page is live: the
// first message brings the whole content anew.
func TestTextTypedBeforeTheFirstMessageSurvives(t *testing.T) {
	t.Parallel()
	w, scope, holder := newHarbour(t, lockguard.Requirement{})
	hold := holder.hold
	target, err := url.Parse(w.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	late := make(chan struct{})
	begin := sync.OnceFunc(func() { close(late) })
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			select {
			case <-late:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(begin)
	b := open(t, slow.URL)
	signIn(b)
	b.visit(fmt.Sprintf("/locks/%s?do=break&token=%s", scope, hold.Token()))
	b.write("Write the name", "town/har")
	b.write("Reason", "its host is bur")
	require.False(t, ask[bool](b, `!!document.querySelector('#pulse[data-state="live"]')`), "nothing has come yet")
	w.request("ship-1", lockguard.Requirement{Scope: scope})
	w.waits(scope, 1)
	require.NotContains(t, ask[string](b, "document.body.innerText"), "ship-1")

	// when
	begin()
	b.shows("ship-1")

	// then
	require.Equal(t, []any{"its host is bur", "town/har", "reason"},
		ask[[]any](b, `[document.getElementById("reason").value, document.getElementById("confirm").value, document.activeElement.id]`))
	b.press("nt")
	require.Equal(t, "its host is burnt", ask[string](b, `document.getElementById("reason").value`))
}
