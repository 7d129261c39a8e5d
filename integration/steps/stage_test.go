package steps

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	root = "/lockkeeper"

	// session is the timeout of all sessions.
	session = 10 * time.Second

	// patience is how long a scene may take, in virtual time, before it is given up.
	patience = 10 * time.Minute
)

// A stage is where a scene is played once: a server, the users, a referee, and
// what happened. It lives in a bubble.
type stage struct {
	t      *testing.T
	z      *zktest.Server
	scene  *scene
	log    *harness.History
	start  time.Time
	faults []*strike

	script  *script
	referee *referee
	playing sync.WaitGroup

	mu    sync.Mutex
	users []*user
	fouls []string
	refs  map[string]lock.Reference // that users have told everybody, by the user's name
}

// play plays a scene with faults, and returns what the users have sent, and
// how long it took. Whatever was wrong fails the test.
func play(t *testing.T, sc *scene, bound time.Duration, strikes ...*strike) (frames []frame, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z, err := zktest.Start(zktest.Pipe())
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{t: t, z: z, scene: sc, log: harness.NewHistory(t), start: time.Now(), script: newScript(), faults: strikes}
		s.referee = newReferee(s)
		z.On(zktest.Any().Where(s.sees)).Delay(0)
		var agents sync.WaitGroup
		over := make(chan struct{})
		for _, f := range strikes {
			f.prepare(s)
			agents.Go(func() { f.run(over) })
		}
		sc.play(s)
		ended := make(chan struct{})
		go func() { s.playing.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			s.foul("the scene has not ended after %s", patience)
		}
		took, frames = time.Since(s.start), s.script.frames()
		close(over)
		if len(s.fouls) == 0 {
			agents.Wait()
			s.afterwards(took, bound)
		}
		if len(s.fouls) > 0 {
			s.explain()
		}
		s.close()
		time.Sleep(time.Second) // for what is on its way; then time stands still, and no goroutine may be left
		_ = z.Close()
		<-ended
		agents.Wait()
	})
	return frames, took
}

// sees is asked about each request, before the server gets it.
func (s *stage) sees(q zktest.Request) bool {
	s.script.add(q)
	s.referee.Look()
	return false
}

func (s *stage) tell(who, format string, args ...any) { s.log.Add(who, format, args...) }

// foul takes note of what must not be.
func (s *stage) foul(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.tell("FOUL", "%s", text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.fouls, text) {
		s.fouls = append(s.fouls, text)
	}
}

func (s *stage) everybody() []*user {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.users)
}

// --- what must be when all have done their part ---------------------------------

func (s *stage) afterwards(took, bound time.Duration) {
	synctest.Wait()
	if bound > 0 && took > bound {
		s.foul("the scene took %s, not %s at most: somebody waited for nothing", took, bound)
	}
	// What is undone in the background is done soon, as everybody is connected.
	s.becomes("a node is left", func() []string { return s.nodes() })
	s.becomes("a watch is left", func() []string { return s.watches(s.scene.stands) })
	for _, u := range s.everybody() {
		u.concludes()
	}
	s.becomes("a client has not forgotten", func() []string { return s.remembered() })
	if len(s.fouls) > 0 {
		return
	}
	s.probe()
}

// becomes waits until f has nothing to tell.
func (s *stage) becomes(what string, f func() []string) {
	const soon = 3 * time.Second
	var left []string
	for end := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		if left = f(); len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	s.foul("%s, %s after all is over: %s", what, soon, strings.Join(left, ", "))
}

// nodes are those that belong to a session.
func (s *stage) nodes() (left []string) {
	for _, n := range s.z.Tree("/") {
		if n.Stat.EphemeralOwner != 0 {
			left = append(left, s.script.plain(n.Path))
		}
	}
	return left
}

// watches are those at the server, but for one kind.
func (s *stage) watches(but string) (left []string) {
	for _, w := range s.z.Watches() {
		if what := fmt.Sprintf("%s on %s", w.Kind, s.script.plain(w.Path)); what != but {
			left = append(left, what+" by "+w.Name)
		}
	}
	return left
}

func (s *stage) remembered() (left []string) {
	standing := len(s.watches("")) - len(s.watches(s.scene.stands))
	for _, u := range s.everybody() {
		if u.closed.Load() {
			continue
		}
		for _, line := range inventory(u.name, u.client) {
			if standing > 0 && strings.HasPrefix(line, "1 in current.watches.entries") {
				standing--
				continue
			}
			left = append(left, line)
		}
	}
	return left
}

// probe lets everybody who is still there, and a newcomer, take each lock.
func (s *stage) probe() {
	s.newUser("newcomer", 0)
	for _, u := range s.everybody() {
		if u.closed.Load() {
			continue
		}
		u.recovers()
		for _, take := range s.scene.probes {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			begin := time.Now()
			err := take(ctx, u.client)
			cancel()
			if err != nil {
				s.foul("afterwards %s cannot take the lock: %v", u.name, err)
			} else if took := time.Since(begin); took > time.Second {
				s.foul("afterwards %s takes the lock after %s", u.name, took)
			}
		}
	}
	s.becomes("a node is left by a probe", func() []string { return s.nodes() })
	s.becomes("a watch is left by a probe", func() []string { return s.watches("") })
}

func (s *stage) close() {
	failed := len(s.fouls) > 0
	for _, u := range s.everybody() {
		u.cancel()
	}
	if failed {
		_ = s.z.Close()
	}
	for _, u := range s.everybody() {
		u.shut(failed)
	}
	if failed {
		return
	}
	for _, left := range s.z.Sessions() {
		// One whose owner never heard of it ends by itself.
		if left.Connected || len(left.Ephemerals) > 0 || left.Name != "" {
			s.foul("a session is left: %+v", left)
		}
	}
	if len(s.fouls) > 0 {
		s.explain()
	}
}

// explain fails the test, and prints how it came to that.
func (s *stage) explain() {
	var lines []string
	for _, e := range s.z.Trace() {
		lines = append(lines, e.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Errorf("scene %s: %s\n%s", s.scene.name, s.scene.about, strings.Join(s.fouls, "\n"))
	for _, f := range s.faults {
		s.t.Logf("fault: %s at %s", f.fault.name, f.frame)
	}
	s.t.Logf("what was sent:\n%s", strings.Join(lines[max(0, len(lines)-250):], "\n"))
	s.t.Logf("what is there:\n%s", s.z.Dump())
}

// --- connections -----------------------------------------------------------------

// distance is what a request of the n-th user needs to get to the server: each
// has another one, so that no two are there at the same moment.
func distance(n int) time.Duration { return time.Millisecond + time.Duration(n)*137*time.Microsecond }

type far struct {
	net.Conn
	away time.Duration
}

func (c far) Write(b []byte) (int, error) {
	time.Sleep(c.away)
	return c.Conn.Write(b)
}

func (s *stage) dialer(name string, away time.Duration) func(context.Context, string, string) (net.Conn, error) {
	dial := s.z.Dialer(name)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return far{conn, away}, nil
	}
}

func (s *stage) connect(name string, n int) *lock.Client {
	cfg := lock.Config{Dialer: s.dialer(name, distance(n)), Root: root, SessionTimeout: session}
	if s.scene.known {
		cfg.Auth = &lock.Digest{User: "ann", Password: "s3cret"}
	}
	c, err := lock.NewClient(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}
