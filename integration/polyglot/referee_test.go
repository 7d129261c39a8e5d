package polyglot

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A referee gives out turns and sees who is inside. Programs speak to it by
// lines over TCP, each of its threads on a connection of its own:
//
//	turn          what to do next: write, read or stop
//	enter NAME    has acquired; the answer is: in
//	leave         is about to release; the answer is: out
type referee struct {
	port  string
	limit int           // how many may write together; 0 is 1
	share int           // each so many turns one writes, the others read; 0: all write
	start chan struct{} // closed when everybody is there

	mu       sync.Mutex
	absent   int // players who have not asked for their first turn
	turns    int // that were given out
	most     int
	writers  []string
	readers  []string
	together int           // most inside at once
	full     chan struct{} // closed when as many were inside as may be
	visits   map[string]int
	fouls    []string
	began    time.Time
	last     string
	changes  int // of language from one visit to the next
}

func newReferee(t *testing.T, turns int) *referee {
	t.Helper()
	r := &referee{most: turns, start: make(chan struct{}), full: make(chan struct{}), visits: make(map[string]int)}
	r.port = listen(t, func(lines *bufio.Scanner, answer func(string) error) {
		p := &player{r: r}
		for lines.Scan() && answer(p.hear(lines.Text())) == nil {
		}
		if p.name != "" {
			r.foul("%s hung up inside", p.name)
		}
	})
	return r
}

// listen serves each connection until the end of the test, and returns the port.
func listen(t *testing.T, serve func(lines *bufio.Scanner, answer func(string) error)) (port string) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				serve(bufio.NewScanner(conn), func(line string) error {
					_, err := fmt.Fprintln(conn, line)
					return err
				})
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}

// A player is one thread of one program.
type player struct {
	r      *referee
	there  bool
	writes bool
	name   string // "" outside
}

func (p *player) hear(line string) string {
	word, name, _ := strings.Cut(line, " ")
	switch word {
	case "turn":
		return p.turn()
	case "enter":
		p.enter(name)
		return "in"
	case "leave":
		p.leave()
		return "out"
	default:
		p.r.foul("said %q", line)
		return "what?"
	}
}

// turn says what is to be done next. The first comes when everybody is there.
func (p *player) turn() string {
	r := p.r
	if !p.there {
		p.there = true
		r.arrive()
		<-r.start
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns == r.most {
		return "stop"
	}
	r.turns++
	p.writes = r.share == 0 || r.turns%r.share == 0
	if p.writes {
		return "write"
	}
	return "read"
}

// begins says how many players there will be.
func (r *referee) begins(players int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.absent += players; r.absent == 0 {
		close(r.start)
	}
}

func (r *referee) arrive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.absent--; r.absent == 0 {
		r.began = time.Now()
		close(r.start)
	}
}

// giveUp lets those go who wait for players that will not come.
func (r *referee) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.absent > 0 {
		r.absent, r.turns = 0, r.most
		close(r.start)
	}
}

func (p *player) enter(name string) {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	p.name = name
	if p.writes {
		r.writers = append(r.writers, name)
	} else {
		r.readers = append(r.readers, name)
	}
	if now := len(r.readers) + len(r.writers); now > r.together {
		r.together = now
		if now == r.limit {
			close(r.full)
		}
	}
	if len(r.writers) > max(r.limit, 1) || len(r.writers) > 0 && len(r.readers) > 0 {
		r.fouls = append(r.fouls, fmt.Sprintf("writers %q and readers %q are inside together", r.writers, r.readers))
	}
	r.visits[name]++
	if r.last != name {
		r.changes++
	}
	r.last = name
}

func (p *player) leave() {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	drop := func(list []string) []string {
		for i, name := range list {
			if name == p.name {
				return append(list[:i:i], list[i+1:]...)
			}
		}
		return list
	}
	if p.writes {
		r.writers = drop(r.writers)
	} else {
		r.readers = drop(r.readers)
	}
	p.name = ""
}

func (r *referee) foul(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fouls = append(r.fouls, fmt.Sprintf(format, args...))
}

// wasFair checks that all turns were taken, by the rules, and that each of the
// languages had some: how many is a matter of how busy the machine is.
func (r *referee) wasFair(t *testing.T, languages ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.fouls)
	require.Empty(t, r.writers)
	require.Empty(t, r.readers)
	total := 0
	for _, language := range languages {
		require.NotZero(t, r.visits[language], "%s has had no turn: %v", language, r.visits)
		total += r.visits[language]
	}
	require.Equal(t, r.most, total)
	t.Logf("%d turns in %s: %v, %d changes of language, %d inside at once at most",
		total, time.Since(r.began).Round(time.Millisecond), r.visits, r.changes, r.together)
}

func (r *referee) inside() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writers) + len(r.readers)
}
