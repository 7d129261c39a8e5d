package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A site is what the lock protects: it notices when two are inside and neither
// has lost the lock to the vandal.
type site struct {
	mu     sync.Mutex
	inside map[string]priority.Mode // by id
	robbed map[string]bool          // by id: the vandal has deleted or overwritten its node
	visits int
	faults []string
	trace  func() string // of the server
	story  string        // of the first fault
}

func (s *site) enter(id string, mode priority.Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, m := range s.inside {
		if !s.robbed[other] && !s.robbed[id] && !mode.Admits(m) {
			s.faults = append(s.faults, fmt.Sprintf("%s enters, %s is inside", id, other))
			if s.story == "" {
				s.story = s.trace()
			}
		}
	}
	s.inside[id] = mode
	s.visits++
}

func (s *site) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inside, id)
}

func (s *site) rob(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if parts := strings.Split(name, "-"); len(parts) > 2 {
		s.robbed[parts[2]] = true
	}
}

// A vandal does something bad every few milliseconds.
type vandal struct {
	t    *testing.T
	rand *rand.Rand
	zk   *zktest.Server
	conn *zk.Conn
	site *site
	lock string
	made []string
	n    int
	did  map[string]int
}

var junk = []string{"", "garbage", "\x00", "null", "[1]", "{}", `{"format":1}`, `{"format":1,"owner":7}`, valid}

// act does one thing. What it may not do is write G, or a grant, as the protocol
// would: see docs/protocol.md.
func (v *vandal) act() {
	v.n++
	children := v.zk.Tree(v.lock)[1:]
	data := []byte(junk[v.rand.IntN(len(junk))])
	create := func(what, name string, flags int32, acl []zk.ACL) {
		v.did[what]++
		if _, err := v.conn.Create(v.lock+"/"+name, data, flags, acl); err == nil {
			v.made = append(v.made, v.lock+"/"+name)
		}
	}
	victim := func() (zktest.Node, bool) {
		own := slices.DeleteFunc(slices.Clone(children), func(n zktest.Node) bool { return slices.Contains(v.made, n.Path) })
		if len(own) == 0 {
			return zktest.Node{}, false
		}
		return own[v.rand.IntN(len(own))], true
	}
	name := request(v.rand.IntN(12), 1_000_000+v.n*7919)
	if v.rand.IntN(2) == 0 {
		name = strings.Replace(name, "-x-", "-s-", 1)
	}
	switch v.rand.IntN(10) {
	case 0, 1:
		create("no request", fmt.Sprintf("foreign-%d", v.n), int32(v.rand.IntN(2))*zk.FlagEphemeral, world)
	case 2:
		create("persistent", name, 0, world)
	case 3:
		if data = []byte("garbage"); v.rand.IntN(2) == 0 {
			create("closed", name, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "ann", "x"))
		} else {
			create("garbage", name, zk.FlagEphemeral, world)
		}
	case 4, 5, 6:
		if len(v.made) > 0 {
			v.did["gone"]++
			i := v.rand.IntN(len(v.made))
			_ = v.zk.Delete(v.made[i])
			v.made = slices.Delete(v.made, i, i+1)
		}
	case 7:
		if n, ok := victim(); ok {
			v.did["deleted"]++
			v.site.rob(n.Path[len(v.lock)+1:])
			_ = v.zk.Delete(n.Path)
		}
	case 8:
		if n, ok := victim(); ok && v.intact(children) {
			v.did["overwritten"]++
			v.site.rob(n.Path[len(v.lock)+1:])
			_ = v.zk.Set(n.Path, data)
		}
	case 9:
		if strings.Contains(string(data), `"format":1`) || len(data) == 0 {
			data = []byte("garbage") // those say that the lock has no holder
		}
		if v.intact(children) {
			v.did["G"]++
			_ = v.zk.Set(v.lock, data)
		}
	}
}

// intact reports whether G can be read, and no node that he has overwritten is
// left. Where both the holder's node and G are overwritten before a client has
// read them, the holder is unknown.
func (v *vandal) intact(children []zktest.Node) bool {
	lock, err := v.zk.Get(v.lock)
	require.NoError(v.t, err)
	v.site.mu.Lock()
	defer v.site.mu.Unlock()
	return strings.HasPrefix(string(lock.Data), `{"format":1,"holders":`) && !slices.ContainsFunc(children, func(n zktest.Node) bool {
		parts := strings.Split(n.Path, "-")
		return len(parts) > 2 && v.site.robbed[parts[2]]
	})
}

// A worker takes the lock, works, and gives it back, n times.
func (s *site) work(ctx context.Context, l *lock.PriorityLock, seed uint64, n int) error {
	r := rand.New(rand.NewPCG(seed, 1))
	for done := 0; done < n; {
		lost := make(chan struct{}, 1)
		mode := priority.Mode(r.IntN(2))
		request := lock.Request{
			Identity: priority.Identity{Owner: fmt.Sprint(seed)}, Terms: priority.Terms{
				Mode: mode, Priority: priority.Level(r.IntN(10)), Forceful: r.IntN(3) == 0, LeaseTimeout: time.Duration(1+r.IntN(200)) * time.Millisecond,
				CleanupTimeout: time.Second,
			},
			// a preempted holder releases long before
			Notify: func(n lock.Notice) {
				switch n.(type) {
				case lock.Lost, lock.PreemptRequested:
					select {
					case lost <- struct{}{}:
					default:
					}
				}
			},
		}
		if r.IntN(4) == 0 {
			request.AcquireTimeout = new(time.Duration(r.IntN(3)) * 50 * time.Millisecond)
		}
		g, err := l.Acquire(ctx, request)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("worker %d is stuck after %d of %d: %w", seed, done, n, err)
		case err != nil && !lock.IsNotAcquired(err) && !bearable(err):
			return fmt.Errorf("worker %d: %w", seed, err)
		case errors.As(err, new(*lock.RecordError)) || errors.As(err, new(*lock.AccessError)):
			<-time.After(100 * time.Millisecond) // somebody has to put it right
			continue
		case err != nil:
			done++
			continue
		}
		// A holder that has not read its token works in vain: see
		// docs/protocol.md.
		if _, err := g.Token(ctx); err == nil {
			s.enter(g.ID(), mode)
			select {
			case <-time.After(time.Duration(r.IntN(30)) * time.Millisecond):
			case <-lost:
			}
			s.leave(g.ID())
		} else if !bearable(err) {
			return fmt.Errorf("worker %d has no token: %w", seed, err)
		}
		if err := g.Release(ctx); err != nil && !bearable(err) {
			return fmt.Errorf("worker %d does not get rid of the lock: %w", seed, err)
		}
		done++
	}
	return nil
}

// bearable reports whether an error is one that the vandal may cause.
func bearable(err error) bool {
	return errors.As(err, new(*lock.LostError)) || errors.As(err, new(*lock.EvictedError)) ||
		errors.As(err, new(*lock.RecordError)) || errors.As(err, new(*lock.AccessError))
}

func TestTenClientsGoOnWhateverAVandalDoes(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			virtual.Run(t, func(w *virtual.World) { vandalize(w, seed, 30) })
		})
	}
}

func vandalize(t *virtual.World, seed uint64, each int) {
	server := t.Server
	s := &site{inside: map[string]priority.Mode{}, robbed: map[string]bool{}, trace: t.Frames}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	var locks []*lock.PriorityLock
	for i := range 10 {
		l, err := t.Connect(fmt.Sprint("client ", i), 0).PriorityLock(scope)
		require.NoError(t, err)
		locks = append(locks, l)
	}
	first, err := locks[0].Acquire(ctx, lock.Request{})
	require.NoError(t, err)
	require.NoError(t, first.Release(ctx))

	conn, _, err := zk.Connect([]string{"127.0.0.1:2181"}, time.Minute, zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
		return server.Dialer("vandal")(context.Background(), network, address)
	}), zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	defer conn.Close()
	h := fixture{&harness.Fixture{Root: "/lockkeeper"}}
	v := &vandal{t: t.T, rand: rand.New(rand.NewPCG(seed, 7)), zk: server, conn: conn, site: s, lock: h.node(), did: map[string]int{}}
	stop := make(chan struct{})
	var gang, crew sync.WaitGroup
	gang.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(1+v.rand.IntN(15)) * time.Millisecond):
				v.act()
			}
		}
	})
	errs := make([]error, len(locks))
	for i, l := range locks {
		crew.Go(func() { errs[i] = s.work(ctx, l, seed*100+uint64(i), each) })
	}
	crew.Wait()
	close(stop)
	gang.Wait()
	require.NoError(t, errors.Join(errs...), "%s", server.Dump())
	require.Empty(t, s.faults, "%s", s.story)
	t.Logf("%d visits; the vandal: %v", s.visits, v.did)
	require.Positive(t, s.visits)

	// and when he is gone, leaving all that he has made, the lock works, at the
	// latest when an operator has deleted what errors name
	for _, l := range locks[:3] {
		g, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "after"}, Terms: priority.Terms{Priority: 5}})
		for range len(v.made) {
			var unreadable *lock.RecordError
			var closed *lock.AccessError
			switch {
			case errors.As(err, &unreadable):
				require.NoError(t, server.Delete(unreadable.Node))
			case errors.As(err, &closed):
				require.NoError(t, server.Delete(closed.Node))
			default:
				require.NoError(t, err)
			}
			if err == nil {
				break
			}
			g, err = l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "after"}, Terms: priority.Terms{Priority: 5}})
		}
		require.NoError(t, err)
		_, err = g.Token(ctx)
		require.NoError(t, err)
		require.NoError(t, g.Release(ctx))
	}
}
