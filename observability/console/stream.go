package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"time"
)

const (
	coalesce   = 250 * time.Millisecond // between two pushes of a page
	keepAlive  = 15 * time.Second
	slowness   = 10 * time.Second // who does not take a page in this time is dropped
	recheck    = 2 * time.Second  // whether who reads a page is still signed in
	maxStreams = 200              // pages that are open
	ownStreams = 50               // of them, those of one client
	frameAge   = 200 * time.Millisecond
)

// streams are the pages that are open. Those that are alike are drawn once.
type streams struct {
	mu     sync.Mutex
	open   int
	own    map[string]int // by client
	frames map[string]*frame
}

// A frame is a page as it was drawn.
type frame struct {
	once sync.Once
	at   time.Time
	data []byte
	err  error
}

func newStreams() *streams { return &streams{own: map[string]int{}, frames: map[string]*frame{}} }

// enter has one more counted for a client, until leave; or says why there is no room
// for it.
func (s *streams) enter(client string) (leave func(), full *problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.own[client] >= ownStreams:
		return nil, &problem{
			Status: http.StatusTooManyRequests, Title: "Too many pages are open",
			Detail: fmt.Sprintf("%s has %d pages open that are kept up to date", client, ownStreams),
			Next:   "close some, or load the page by hand",
		}
	case s.open >= maxStreams:
		return nil, &problem{
			Status: http.StatusServiceUnavailable, Title: "Too many pages are open",
			Detail: fmt.Sprintf("%d pages are kept up to date already", maxStreams),
			Next:   "close some, or load the page by hand",
		}
	}
	s.open++
	if client != "" {
		s.own[client]++
	}
	return func() { s.leave(client) }, nil
}

func (s *streams) leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client != "" {
		if s.own[client]--; s.own[client] == 0 {
			delete(s.own, client)
		}
	}
	if s.open--; s.open == 0 {
		clear(s.frames)
	}
}

// client is the key for which streams are counted: an address, or the person whom
// the proxy names. It is "" for the proxy's clients without a name: they are many.
func (c *Console) client(r *http.Request) string {
	if c.o.Proxy.trusts(r) {
		return who(r.Context())
	}
	return c.remote(r)
}

// drawn returns what draw draws, or has drawn a moment ago for somebody else with
// the same key. The key says which state of the locks it shows.
func (s *streams) drawn(key string, draw func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	now := time.Now()
	for k, f := range s.frames {
		if now.Sub(f.at) > frameAge {
			delete(s.frames, k)
		}
	}
	f := s.frames[key]
	if f == nil {
		f = &frame{at: now}
		s.frames[key] = f
	}
	s.mu.Unlock()
	f.once.Do(func() { f.data, f.err = draw() })
	return f.data, f.err
}

// A push sends events to one browser.
type push struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	leave func() // when it is over
}

// openPush begins an answer that does not end. It returns nil when there are too
// many already, and has said so.
func (c *Console) openPush(w http.ResponseWriter, r *http.Request) *push {
	leave, full := c.streams.enter(c.client(r))
	if full != nil {
		w.Header().Set("Retry-After", "10")
		c.refuse(w, r, *full)
		return nil
	}
	p := &push{w: w, rc: http.NewResponseController(w), leave: leave}
	_ = p.rc.SetReadDeadline(time.Time{}) // that of the server is for the request
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // of proxies
	w.WriteHeader(http.StatusOK)
	return p
}

// send writes an event, or a comment; an error says that the browser has gone, or
// is too slow.
func (p *push) send(data []byte) error {
	_ = p.rc.SetWriteDeadline(time.Now().Add(slowness))
	if _, err := p.w.Write(data); err != nil {
		return err
	}
	err := p.rc.Flush()
	_ = p.rc.SetWriteDeadline(time.Time{}) // HTTP/2 would end the stream then, though there is nothing to write
	return err
}

// event makes an event of a page: its lines, each with data in front. A carriage
// return ends a line as well, wherever it comes from.
func event(page []byte) []byte {
	page = bytes.ReplaceAll(page, []byte("\r\n"), []byte("\n"))
	page = bytes.ReplaceAll(page, []byte("\r"), []byte("\n"))
	var out bytes.Buffer
	for line := range bytes.Lines(page) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\n"))
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// ages are how long ago something was: they run on in the browser, and nothing is
// sent for them.
var ages = regexp.MustCompile(`(<time[^>]*>)[^<]*(</time>)`)

// likeness tells one page from another, but for ages.
func likeness(page []byte) [sha256.Size]byte {
	return sha256.Sum256(ages.ReplaceAll(page, []byte("$1$2")))
}

// stream sends a page whenever what it shows has changed. every is how often that
// is looked at beside changes of locks; 0: never.
func (c *Console) stream(
	w http.ResponseWriter, r *http.Request, every time.Duration, draw func(ctx context.Context) ([]byte, error),
) {
	p := c.openPush(w, r)
	if p == nil {
		return
	}
	defer p.leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.ending, cancel)()
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	again := time.NewTicker(recheck)
	defer again.Stop()
	wakes := wakes{changed: c.watch(ctx), alive: alive.C, again: again.C}
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		wakes.looks = ticker.C
	}
	var shown [sha256.Size]byte
	for {
		page, err := draw(ctx)
		if ctx.Err() != nil || !stillKnown(ctx) { // by the time of what the page shows
			return
		}
		if err != nil {
			c.log.Error("a page of the console cannot be drawn", "path", r.URL.Path, "error", err)
			return
		}
		if now := likeness(page); now != shown {
			if p.send(event(page)) != nil {
				return
			}
			shown = now
			alive.Reset(keepAlive)
		}
		pause := time.NewTimer(coalesce)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		if !p.wait(ctx, wakes) {
			return
		}
	}
}

// wakes are what ends the wait of a stream, or interrupts it.
type wakes struct {
	changed <-chan struct{}  // locks have
	looks   <-chan time.Time // it is time to look at the rest
	alive   <-chan time.Time // it is time to say something
	again   <-chan time.Time // it is time to check who looks
}

// wait returns when there may be something new to show. It returns false when the stream
// ends.
func (p *push) wait(ctx context.Context, w wakes) bool {
	for {
		select {
		case <-w.changed:
			return true
		case <-w.looks:
			return true
		case <-w.again:
			if !stillKnown(ctx) {
				return false
			}
		case <-w.alive:
			if p.send([]byte(": ka\n\n")) != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// watch returns a channel that has something in it when locks have changed.
func (c *Console) watch(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		for range c.o.Board.Changes(ctx) {
			select {
			case changed <- struct{}{}:
			default: // it will look at the newest anyway
			}
		}
	}()
	return changed
}
