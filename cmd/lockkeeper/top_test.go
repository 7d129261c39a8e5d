package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/top"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A rush is a contention: hotfix has preempted nightly-reindex, which holds
// db/orders, and stats waits behind; others hold locks without waiters.
type rush struct {
	zk     *zktest.Server
	client *lock.Client
	grants map[string]*lock.Grant
}

func newRush(t *testing.T) *rush {
	t.Helper()
	zk := zktest.RunT(t)
	r := &rush{zk: zk, client: connect(t, zk, nil), grants: map[string]*lock.Grant{}}
	preempted := make(chan struct{})
	once := sync.OnceFunc(func() { close(preempted) })
	r.take(t, "db/orders", lock.Request{
		Identity: priority.Identity{Owner: "nightly-reindex", Message: "rebuilds all of the indexes"},
		Terms:    priority.Terms{Priority: 40, CleanupTimeout: time.Hour, LeaseTimeout: 10 * time.Hour},
		Notify: func(n lock.Notice) {
			if _, ok := n.(lock.PreemptRequested); ok {
				once()
			}
		},
	})
	r.take(t, "db/users", lock.Request{Identity: priority.Identity{Owner: "evil\x1b[2J\u202e\u009bname 鎖🔒", Message: "\x1b]0;title\x07"}, Terms: priority.Terms{LeaseTimeout: time.Hour}})
	r.take(t, "cluster/carts/resource/very-long-name-of-a-resource/shards/0017", lock.Request{Identity: priority.Identity{Owner: "compact"}, Terms: priority.Terms{LeaseTimeout: time.Hour}})
	enqueue(t, r.client, "db/orders", lock.Request{Identity: priority.Identity{Owner: "stats-rollup"}, Terms: priority.Terms{Priority: 30}})
	enqueue(t, r.client, "db/orders", lock.Request{Identity: priority.Identity{Owner: "hotfix-migrate"}, Terms: priority.Terms{Priority: 90, Forceful: true, WaitingTimeout: new(time.Hour)}})
	select {
	case <-preempted:
	case <-time.After(time.Minute):
		require.FailNow(t, "the holder is not preempted")
	}
	return r
}

func (r *rush) take(t *testing.T, scope string, q lock.Request) {
	t.Helper()
	r.grants[scope] = acquire(t, r.client, scope, q)
}

func (r *rush) watch(t *testing.T, columns, lines int, args ...string) *sitting {
	t.Helper()
	return sit(t, columns, lines, nil, append([]string{"top", "--zk", r.zk.Addr()}, args...)...)
}

func TestTopShowsWhatChangesAsItChanges(t *testing.T) {
	t.Parallel()
	r := newRush(t)
	s := r.watch(t, 100, 24)
	s.shows(t, "ZooKeeper answers", "3 locks · 3 held · 2 waiting", "1 preempting · 0 cycles", "> db/orders", "preempting nightly-reindex")

	// when the holder gives way, then its successor is there
	require.NoError(t, r.grants["db/orders"].Release(t.Context()))
	s.shows(t, "held  hotfix-migrate", "3 held · 1 waiting", "0 preempting")

	// when a lock is new, then so is its row
	r.take(t, "db/new", lock.Request{Identity: priority.Identity{Owner: "newcomer"}})
	s.shows(t, "db/new", "newcomer", "4 locks")

	s.press(t, "q")
	s.leaves(t, 0)
}

func TestTopFindsAndOpensALock(t *testing.T) {
	t.Parallel()
	r := newRush(t)
	s := r.watch(t, 80, 32) // both waiters are in sight, however their lines are broken, and not all of the timeline
	s.shows(t, "> db/orders", "db/users")

	// when it is filtered, then the rest is out of sight
	s.press(t, "/ROLL")
	s.shows(t, "/ROLL", "1 of 3")
	s.hides(t, "db/users")
	s.press(t, "\r")
	s.shows(t, "/ROLL: 1 of 3 · by oldest wait")

	// and Enter opens what is left
	s.press(t, "\r")
	s.shows(t, "preempting, exclusive, 2 waiting", "HELD BY", "nightly-reindex (priority 40)", "message: rebuilds all of the indexes", "preempted by hotfix-migrate (priority 90)",
		"2. stats-rollup (priority 30)", "why: waits behind 1", "waits for: nightly-reindex, hotfix-migrate")
	s.press(t, "\x1b[6~")
	s.shows(t, "TIMELINE", "nightly-reinde", "preempts nightly-reindex")
	s.hides(t, "root blocker:")
	s.press(t, "g")
	s.shows(t, "root blocker:")
	s.press(t, "G")
	s.shows(t, "TIMELINE", "nightly-reinde", "preempts nightly-reindex")

	// when what is looked at changes, then that shows
	require.NoError(t, r.grants["db/orders"].Release(t.Context()))
	s.press(t, "g")
	s.shows(t, "held, exclusive, 1 waiting", "hotfix-migrate (priority 90)")

	// and Esc goes back, twice to all
	s.press(t, "\x1b")
	s.shows(t, "/ROLL: 1 of 3")
	s.press(t, "\x1b")
	s.shows(t, "db/users")

	s.press(t, "?")
	s.shows(t, "Keys", "preempting    a holder has been preempted")
	s.press(t, "\x03")
	s.leaves(t, 0)
}

func TestTopFitsTheTerminalWhateverItsSize(t *testing.T) {
	r := newRush(t)
	s := r.watch(t, 200, 50)
	s.shows(t, "LEASE LEFT", "OLDEST WAIT", "ROOT BLOCKER", "cluster/carts/resource/very-long-name-of-a-resource/shards/0017")
	s.resize(t, 40, 10)
	s.shows(t, "cluster…ds/0017", "q quit")
	s.hides(t, "ROOT BLOCKER")
	s.press(t, "\r")
	s.shows(t, "preempting, exclusive, 2 waiting", "HELD BY")
	s.resize(t, 8, 3)
	s.shows(t, "lockkee…", "lines 1…")
	s.resize(t, 120, 40)
	s.shows(t, "TIMELINE")
	s.press(t, "q")
	s.leaves(t, 0)
}

func TestTopLeavesTheTerminalAsItWasHoweverItEnds(t *testing.T) {
	t.Parallel()
	r := newRush(t)
	t.Run("signals", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			s := r.watch(t, 80, 24)
			s.shows(t, "db/orders")
			require.NoError(t, s.process.Process.Signal(sig))
			s.leaves(t, 128+int(sig))
		}
	})
	t.Run("its time is over", func(t *testing.T) {
		s := r.watch(t, 80, 24, "--for", "100ms")
		s.leaves(t, 0)
	})
	t.Run("it goes on after it was stopped", func(t *testing.T) {
		s := r.watch(t, 80, 24)
		s.shows(t, "db/orders")
		require.NoError(t, s.process.Process.Signal(syscall.SIGSTOP))
		s.mu.Lock()
		for _, line := range s.cells {
			clear(line) // somebody else has written there
		}
		s.mu.Unlock()
		require.NoError(t, s.process.Process.Signal(syscall.SIGCONT))
		s.shows(t, "db/orders", "q quit")
		s.press(t, "q")
		s.leaves(t, 0)
	})
}

// A brokenSource is one that does not look.
type brokenSource func() error

func (f brokenSource) Run(context.Context, func(lock.Sighting)) error { return f() }

func TestTopLeavesTheTerminalAsItWasWhenItCannotGoOn(t *testing.T) {
	watch := func(t *testing.T, f brokenSource) (*screen, term.State, func() error) {
		s := newScreen(t, 80, 24)
		was, err := term.GetState(int(s.tty.Fd()))
		require.NoError(t, err)
		board, err := live.New(live.Options{Source: f, Now: time.Now})
		require.NoError(t, err)
		return s, *was, func() error {
			return watchTop(t.Context(), topBoards{all: []topBoard{{Board: board, now: time.Now}}}, s.tty, s.tty, top.Look{})
		}
	}
	t.Run("error", func(t *testing.T) {
		refused := errors.New("no access")
		s, was, run := watch(t, func() error { return refused })
		require.ErrorIs(t, run(), refused)
		s.restored(t, was)
	})
	t.Run("panic", func(t *testing.T) {
		s, was, run := watch(t, func() error { panic("a bug") })
		defer func() {
			crash, ok := recover().(topCrash)
			require.True(t, ok)
			require.Contains(t, crash.Error(), "a bug")
			require.Contains(t, crash.Error(), "brokenSource", "where")
			s.restored(t, was)
		}()
		_ = run()
	})
}

func TestTopWithoutColours(t *testing.T) {
	r := newRush(t)
	s := sit(t, 80, 24, []string{"NO_COLOR=1", "LC_ALL=C"}, "top", "--zk", r.zk.Addr())
	s.shows(t, "3 locks | 3 held", "> db/orders")
	s.press(t, "\rG")
	s.shows(t, "TIMELINE", "nightly-reindex 40", "%%>")
	s.press(t, "q")
	s.leaves(t, 0)
	require.Contains(t, s.all(), "\x1b[7m", "what is chosen is to be seen")
	require.NotRegexp(t, `\x1b\[(\d;)?[349]\dm`, s.all())
}

func TestTopShowsAllLocksOnceWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	r := newRush(t)
	out, err := exec.Command("lockkeeper", "top", "--zk", r.zk.Addr()).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "\x1b")
	require.Regexp(t, `(?m)^SCOPE +STATE +HOLDER +SINCE +LEASE LEFT +WAITERS +OLDEST WAIT +ROOT BLOCKER$`, string(out))
	require.Regexp(t, `(?m)^db/orders +preempting +nightly-reindex +[0-9a-z]+ +9h59m +2 +[0-9a-z]+ +nightly-reindex$`, string(out))
	stdout := func(args ...string) string {
		out, err := exec.Command("lockkeeper", append(args, "--zk", r.zk.Addr())...).Output()
		require.NoError(t, err)
		return string(out)
	}
	fields := func(json string) (names []string) { // the values change
		for line := range strings.Lines(json) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			names = append(names, name)
		}
		return names
	}
	require.Equal(t, fields(stdout("locks", "ls", "-o", "json")), fields(stdout("top", "-o", "json")))

	// and on a terminal, if that is asked for
	s := r.watch(t, 200, 24, "--once")
	s.shows(t, "db/users", "ROOT BLOCKER")
	s.leaves(t, 0)
	require.NotContains(t, s.all(), "\x1b")
}
