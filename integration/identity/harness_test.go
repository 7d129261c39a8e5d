package identity

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// shared serves every test that does it no harm.
var shared testbed.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

// A user is somebody who knows a password.
type user struct{ name, password string }

// keeper is the user of the daemons, ana and bob are operators, worker is another daemon, rita may read; eve is in no
// list.
var (
	keeper    = user{"keeper", "k33per"}
	ana       = user{"ana", "an:a's"}
	bob       = user{"bob", "b0b"}
	worker    = user{"worker", "w0rker"}
	rita      = user{"rita", "r1ta"}
	eve       = user{"eve", "apple"}
	eveAsAna  = user{"ana", "guessed"} // the right name, the wrong password
	anonymous = user{}
)

func (u user) id() string { return lock.DigestID(u.name, u.password) }

func ids(users ...user) (list []string) {
	for _, u := range users {
		list = append(list, u.id())
	}
	return list
}

type fixture struct{ *harness.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{harness.New(t, shared.Server(t))}
}

// client connects somebody, who names the operators as the configuration does.
func (h *fixture) client(u user, operators ...user) *lock.Client {
	h.Helper()
	return h.clientAt(h.Server.Addr(), u, operators...)
}

func (h *fixture) clientAt(addr string, u user, operators ...user) *lock.Client {
	h.Helper()
	return h.Client(harness.Servers(addr), func(cfg *lock.Config) {
		cfg.Operators = ids(operators...)
		if u != anonymous {
			cfg.Auth = &lock.Digest{User: u.name, Password: u.password}
		}
	})
}

// shell is a bare connection of somebody.
func (h *fixture) shell(u user) *zk.Conn {
	h.Helper()
	conn := testbed.Shell(h, h.Server)
	if u != anonymous {
		require.NoError(h, conn.AddAuth("digest", []byte(u.name+":"+u.password)))
	}
	return conn
}

// incident is an override that is in order.
func incident(id string, until time.Time) override.Override {
	return override.Override{
		ID: id, Kind: override.Freeze, Match: override.Match{Scope: "cluster/orders"}, Until: until.UTC().Truncate(time.Second),
		By: "ana", Reason: "disk full",
	}
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// A reader is somebody who watches the board.
type reader struct {
	t    testing.TB
	seen chan seen
}

type seen struct {
	posted []opstore.PostedOverride
	err    error
}

func (h *fixture) watch(c *lock.Client) *reader {
	h.Helper()
	r := &reader{t: h, seen: make(chan seen, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	watch := harness.Go(h, "Watch", func() (any, error) {
		return nil, c.Overrides().Watch(ctx, func(posted []opstore.PostedOverride, err error) { r.seen <- seen{posted, err} })
	})
	h.Cleanup(func() {
		cancel()
		require.ErrorIs(h, watch.Refused(), context.Canceled)
	})
	return r
}

// sees waits for the next notification: these overrides.
func (r *reader) sees(ids ...string) []opstore.PostedOverride {
	r.t.Helper()
	s := r.next()
	require.NoError(r.t, s.err)
	require.Equal(r.t, append([]string{}, ids...), names(s.posted))
	return s.posted
}

func (r *reader) next() seen {
	r.t.Helper()
	return harness.Receive(r.t, r.seen, "the reader is not notified")
}

// silent: nothing else has been told by the time that this was called.
func (r *reader) silent() {
	r.t.Helper()
	require.Empty(r.t, r.seen)
}

func names(posted []opstore.PostedOverride) []string {
	list := make([]string, 0, len(posted))
	for _, p := range posted {
		list = append(list, p.Override.ID)
	}
	return list
}

// works takes a lock and gives it back.
func works(ctx context.Context, c *lock.Client) error {
	l, err := c.PriorityLock("cluster/orders")
	if err != nil {
		return err
	}
	grant, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "works"}, Terms: priority.Terms{Priority: 100}})
	if err != nil {
		return err
	}
	return grant.Release(ctx)
}
