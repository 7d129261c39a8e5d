package zkdiff

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// told requires that a story, played on two servers at the same time, goes the same way on both: every session hears
// the same in the same order. When, and what others hear meanwhile, is not compared: stories are about things that
// servers do by themselves.
func told(t *testing.T, genuine, fake launcher, story func(*narrator)) {
	t.Helper()
	t.Parallel() // stories mostly wait
	p, err := launchPair(t.Context(), genuine, fake)
	require.NoError(t, err)
	narrators := []*narrator{newNarrator(p.real), newNarrator(p.fake)}
	var both sync.WaitGroup
	for _, n := range narrators {
		both.Go(func() { story(n) })
	}
	both.Wait()
	require.NoError(t, p.close())
	require.Equal(t, narrators[0].String(), narrators[1].String(), "expected: the real server; actual: the fake")
	require.NotContains(t, narrators[0].String(), "NEVER", "the story has not gone as it should")
	t.Logf("both:\n%s", narrators[0])
}

// narrator plays a story on one server and notes what is heard, by session.
type narrator struct {
	*side
	heard   [][]string // the last one is the connection beside
	awaited []int      // how much of it has been waited for
}

func newNarrator(s *side) *narrator {
	return &narrator{side: s, heard: make([][]string, len(s.clients)+1), awaited: make([]int, len(s.clients)+1)}
}

// String returns all that has been heard.
func (n *narrator) String() string {
	var text strings.Builder
	for i, lines := range n.heard {
		for _, line := range lines {
			fmt.Fprintf(&text, "%d %s\n", i, line)
		}
	}
	return text.String()
}

func (n *narrator) take(steps ...Step) {
	for _, step := range steps {
		n.hear(n.do(step))
	}
}

func (n *narrator) hear(o outcome) {
	for i, lines := range o.heard {
		for _, line := range lines {
			if !strings.HasPrefix(line, "pong") { // when it comes is a matter of time
				n.heard[i] = append(n.heard[i], line)
			}
		}
	}
}

// await lets time pass until a session has heard something that ends with what is wanted, after what was awaited before.
// Meanwhile sessions that are named are kept alive with pings.
func (n *narrator) await(on int, wanted string, alive ...int) {
	for began := time.Now(); time.Since(began) < patience; {
		for n.awaited[on] < len(n.heard[on]) {
			line := n.heard[on][n.awaited[on]]
			n.awaited[on]++
			if strings.HasSuffix(line, wanted) {
				return
			}
		}
		n.listen(on, tick/4)
		for _, i := range alive {
			o := outcome{heard: make([][]string, len(n.clients)+1)}
			n.ping(&o, i)
			n.hear(o)
		}
	}
	n.heard[on] = append(n.heard[on], "NEVER: "+wanted)
}

// listen waits a while for a frame.
func (n *narrator) listen(on int, wait time.Duration) {
	c := n.clients[on]
	if c.conn == nil {
		return
	}
	frame, err := c.conn.receive(wait)
	switch {
	case err == nil:
		n.heard[on] = append(n.heard[on], n.frame(Ping, frame))
	case errors.Is(err, errSilence):
	default:
		n.heard[on] = append(n.heard[on], err.Error())
		c.conn.Close()
		c.conn = nil
	}
}

// note adds what the story has found out by itself to what a session has heard.
func (n *narrator) note(on int, format string, args ...any) {
	n.heard[on] = append(n.heard[on], fmt.Sprintf(format, args...))
}

func event(kind int, path string) string {
	return fmt.Sprintf("type=%d state=3 path=%q", kind, path)
}

// The kinds of events.
const (
	nodeCreated         = 1
	nodeDeleted         = 2
	nodeDataChanged     = 3
	nodeChildrenChanged = 4
)
