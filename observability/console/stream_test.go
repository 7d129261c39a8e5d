package console

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// follow opens a stream and returns its events, each with its lines.
func follow(t *testing.T, c *Console, target string, header ...string) (events <-chan string, end func()) {
	t.Helper()
	server := httptest.NewServer(c.Handler())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+target, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	out := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(out)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		var event strings.Builder
		for lines.Scan() {
			if lines.Text() == "" {
				out <- event.String()
				event.Reset()
				continue
			}
			event.WriteString(lines.Text() + "\n")
		}
	}()
	return out, func() {
		cancel()
		<-done
		server.Close()
	}
}

func next[T any](t *testing.T, events <-chan T) (e T) {
	t.Helper()
	var ok bool
	select {
	case e, ok = <-events:
		require.True(t, ok, "the stream has ended")
	case <-time.After(time.Minute):
		require.Fail(t, "nothing was pushed")
	}
	return e
}

// ended waits for the end of a stream.
func ended(t *testing.T, events <-chan string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-late:
			require.FailNow(t, "it goes on")
		}
	}
}

func TestPageIsPushedWholeAndAgainWhenItChanges(t *testing.T) {
	board := busyBoard(noon)
	c := newConsole(t, Options{Board: board})
	events, end := follow(t, c, "/waits?live=1")
	defer end()
	first := next(t, events)
	require.Contains(t, first, "nightly-compaction")
	for line := range strings.Lines(first) {
		require.True(t, strings.HasPrefix(line, "data: "), line)
	}
	board.show(live.Snapshot{At: noon.Add(time.Second), Complete: true})
	require.Contains(t, next(t, events), "No waiters")
}

func TestPageThatShowsTheSameIsNotPushedAgain(t *testing.T) {
	board := busyBoard(noon)
	at, drawn := noon, make(chan time.Time, 100)
	c := newConsole(t, Options{Board: board, Now: func() time.Time { at = at.Add(time.Second); drawn <- at; return at }}) // all ages have grown
	events, end := follow(t, c, "/waits?live=1")
	defer end()
	next(t, events)
	next(t, drawn)
	for range 3 { // snapshots that differ in nothing that this page shows; it is drawn anew for each, not for the last one alone
		board.show(*board.Now())
		next(t, drawn)
	}
	changed := busy(noon)
	changed.Waits = live.Graph{}
	board.show(changed)
	require.Contains(t, next(t, events), "No waiters", "the next one is the one that differs")
}

func TestEntriesArePushedFromTheOneAfterTheLastKnown(t *testing.T) {
	board := busyBoard(noon)
	c := newConsole(t, Options{Board: board})
	events, end := follow(t, c, "/api/v1/events", "Accept", "text/event-stream", "Last-Event-ID", "5")
	defer end()
	require.Equal(t, ": entries, as they come\n", next(t, events))
	first := next(t, events)
	require.True(t, strings.HasPrefix(first, "event: entry\nid: 6\ndata: {"), first)
	board.happen(live.Entry{At: noon, Kind: live.EntryReleased, Scope: "a"})
	require.True(t, strings.HasPrefix(next(t, events), "event: entry\nid: 7\n"))
}

func TestPagesThatAreOpenEndWhenTheConsoleCloses(t *testing.T) {
	c := newConsole(t, Options{})
	events, end := follow(t, c, "/?live=1")
	defer end()
	next(t, events)
	c.Close()
	ended(t, events)
}

func TestNoMorePagesAreKeptUpToDateThanThereIsRoomFor(t *testing.T) {
	c := newConsole(t, Options{})
	var leave func()
	for i := range maxStreams {
		var full *problem
		leave, full = c.streams.enter(strconv.Itoa(i % 10))
		require.Nil(t, full)
	}
	answer := ask(t, c, http.MethodGet, "/?live=1", "")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	leave()
	events, end := follow(t, c, "/?live=1")
	defer end()
	next(t, events)
}

func TestOneClientDoesNotTakeTheStreamsOfTheOthers(t *testing.T) {
	proxy := &Proxy{Header: "X-Forwarded-User", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32")}}
	c := newConsole(t, Options{Proxy: proxy})
	request := func(from, person string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/?live=1", nil)
		r.RemoteAddr = from
		return r.WithContext(context.WithValue(t.Context(), personKey{}, identity{name: person}))
	}
	for name, one := range map[string]struct{ all, other *http.Request }{
		"address":          {request("10.0.0.9:1", ""), request("10.0.0.10:1", "")},
		"network of IPv6":  {request("[2001:db8::1]:1", ""), request("[2001:db8:0:1::1]:1", "")},
		"behind the proxy": {request("10.0.0.5:1", "ana"), request("10.0.0.5:1", "ben")},
		"a name is no one": {request("10.0.0.9:1", "ana"), request("10.0.0.10:1", "ana")},
	} {
		var leaves []func()
		for range ownStreams {
			leave, full := c.streams.enter(c.client(one.all))
			require.Nil(t, full, name)
			leaves = append(leaves, leave)
		}
		_, full := c.streams.enter(c.client(one.all))
		require.NotNil(t, full, name)
		require.Equal(t, http.StatusTooManyRequests, full.Status, name)
		leave, full := c.streams.enter(c.client(one.other))
		require.Nil(t, full, name)
		for _, leave := range append(leaves, leave) {
			leave()
		}
		require.Empty(t, c.streams.own, name)
		require.Zero(t, c.streams.open, name)
	}
}

func TestTextOfOthersIsNoLineOfAStream(t *testing.T) {
	s := busy(noon)
	for i := range s.Locks {
		for j := range s.Locks[i].Holders {
			s.Locks[i].Holders[j].Message = "before\rretry: 999999999\r\rafter"
		}
	}
	c := newConsole(t, Options{Board: newScripted(s)})
	events, end := follow(t, c, "/locks/cluster/orders/resource/users?live=1")
	defer end()
	page := next(t, events)
	require.Contains(t, page, "retry: 999999999", "the message is shown")
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSuffix(page, "\n"), "\r", "\n"), "\n") { // to a browser, either ends a line
		require.True(t, strings.HasPrefix(line, "data: "), "%q", line)
	}
}

// deadlines notes until when each write has time.
type deadlines struct {
	*httptest.ResponseRecorder
	last time.Time
}

func (d *deadlines) SetReadDeadline(time.Time) error { return nil }

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.last = t
	return nil
}

func TestStreamThatHasNothingToSayIsNotTooSlow(t *testing.T) {
	c := newConsole(t, Options{})
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	p := c.openPush(d, httptest.NewRequest(http.MethodGet, "/?live=1", nil))
	require.NotNil(t, p)
	defer p.leave()
	require.Zero(t, d.last, "nothing is said before the page is drawn")
	require.NoError(t, p.send([]byte(": ka\n\n")))
	require.Zero(t, d.last, "HTTP/2 ends a stream at its deadline, whether something is written or not")
}

// In virtual time: the stream waits when the session ends.
func TestStreamEndsWithTheSessionOfWhoReadsIt(t *testing.T) {
	for name, over := range map[string]func(c *Console, board *scripted, file string, with func(*http.Request)){
		"signed out": func(c *Console, board *scripted, _ string, with func(*http.Request)) {
			ask(t, c, http.MethodPost, "/sign-out", "", with)
			board.happen(live.Entry{Text: "of no concern to strangers"})
			board.show(live.Snapshot{At: noon.Add(time.Second), Complete: true})
		},
		"signed out while it is read": func(c *Console, board *scripted, _ string, with func(*http.Request)) {
			board.beforeRead(func() { ask(t, c, http.MethodPost, "/sign-out", "", with) })
			board.happen(live.Entry{Text: "of no concern to strangers"})
			board.show(live.Snapshot{At: noon.Add(time.Second), Complete: true})
		},
		"not in the file": func(_ *Console, _ *scripted, file string, _ func(*http.Request)) { require.NoError(t, os.Remove(file)) },
	} {
		for _, target := range []string{"/waits?live=1", "/api/v1/events"} {
			t.Run(name+target, func(t *testing.T) {
				file := usersFile(t, map[string]string{"ana": "secret"})
				synctest.Test(t, func(t *testing.T) {
					users, err := LoadUsers(file, nil, nil)
					require.NoError(t, err)
					board := busyBoard(noon)
					c := newConsole(t, Options{Board: board, Users: users, Private: true})
					form := url.Values{"name": {"ana"}, "password": {"secret"}}.Encode()
					answer := ask(t, c, http.MethodPost, "/sign-in", form)
					require.Equal(t, http.StatusSeeOther, answer.StatusCode)
					with := func(r *http.Request) { r.AddCookie(answer.Cookies()[0]) }

					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					answers := make(chan *http.Response, 1)
					go func() {
						answers <- ask(t, c, http.MethodGet, target, "", with, func(r *http.Request) {
							r.Header.Set("Accept", "text/event-stream")
							*r = *r.WithContext(ctx)
						})
					}()
					<-time.After(time.Second)
					synctest.Wait()
					over(c, board, file, with)
					stream := text(t, <-answers)
					require.NoError(t, ctx.Err(), "it goes on")
					require.Contains(t, stream, "nightly-compaction")
					require.NotContains(t, stream, "of no concern")
					require.NotContains(t, stream, "No waiters")
				})
			})
		}
	}
}
