package identity

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// soon is how long anything that must happen may take on a busy machine.
const soon = 30 * time.Second

// A user is somebody who knows a password.
type user struct{ name, password string }

// The cast: Keeper is who the daemons are, Ana and Bob are operators; nobody
// knows Eve.
var (
	keeper   = user{"keeper", "k33per"}
	ana      = user{"ana", "an:a's"}
	bob      = user{"bob", "b0b"}
	eve      = user{"eve", "apple"}
	eveAsAna = user{"ana", "guessed"} // the right name, the wrong password
	nobody   = user{}
)

func (u user) id() string { return recipes.DigestID(u.name, u.password) }

func ids(users ...user) (list []string) {
	for _, u := range users {
		list = append(list, u.id())
	}
	return list
}

// A house is a server and a root of its own on it.
type house struct {
	*testing.T
	server testbed.Server
	root   string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return &house{T: t, server: shared.Server(t), root: testbed.Root(t)}
}

// client connects somebody, who names the operators as the configuration does.
func (h *house) client(u user, operators ...user) *recipes.Client {
	h.Helper()
	return h.clientAt(h.server.Addr(), u, operators...)
}

func (h *house) clientAt(addr string, u user, operators ...user) *recipes.Client {
	h.Helper()
	cfg := recipes.Config{Servers: []string{addr}, Root: h.root, SessionTimeout: 10 * time.Second, Operators: ids(operators...)}
	if u != nobody {
		cfg.Auth = &recipes.Digest{User: u.name, Password: u.password}
	}
	c, err := recipes.NewClient(cfg)
	require.NoError(h, err)
	h.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil && !errors.Is(err, recipes.ErrClosed) {
			h.Errorf("close the client of %q: %v", u.name, err)
		}
	})
	return c
}

// shell is a bare connection of somebody.
func (h *house) shell(u user) *zk.Conn {
	h.Helper()
	conn := testbed.Shell(h, h.server)
	if u != nobody {
		require.NoError(h, conn.AddAuth("digest", []byte(u.name+":"+u.password)))
	}
	return conn
}

func (h *house) context() context.Context {
	ctx, cancel := context.WithTimeout(h.Context(), soon)
	h.Cleanup(cancel)
	return ctx
}

// incident is an override that is in order.
func incident(id string, until time.Time) override.Override {
	return override.Override{
		ID: id, Kind: override.Freeze, Match: override.Match{Scope: "cluster/orders"}, Until: until.UTC().Truncate(time.Second),
		By: "ana", Reason: "disk full",
	}
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// eventually waits until something is so.
func eventually(t testing.TB, is func() bool, what string) {
	t.Helper()
	require.Eventually(t, is, soon, 5*time.Millisecond, what)
}

// A reader is somebody who watches the board.
type reader struct {
	t    testing.TB
	seen chan sight
}

type sight struct {
	posted []recipes.PostedOverride
	err    error
}

func (h *house) watch(c *recipes.Client) *reader {
	h.Helper()
	r := &reader{t: h, seen: make(chan sight, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Overrides().Watch(ctx, func(posted []recipes.PostedOverride, err error) { r.seen <- sight{posted, err} })
	}()
	h.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			require.ErrorIs(h, err, context.Canceled)
		case <-time.After(soon):
			h.Error("Watch does not end")
		}
	})
	return r
}

// sees waits for what is told next: these overrides.
func (r *reader) sees(ids ...string) []recipes.PostedOverride {
	r.t.Helper()
	s := r.next()
	require.NoError(r.t, s.err)
	require.Equal(r.t, append([]string{}, ids...), names(s.posted))
	return s.posted
}

func (r *reader) next() sight {
	r.t.Helper()
	select {
	case s := <-r.seen:
		return s
	case <-time.After(soon):
		require.FailNow(r.t, "nothing was told")
		return sight{}
	}
}

// silent: nothing else has been told by the time that this was called.
func (r *reader) silent() {
	r.t.Helper()
	select {
	case s := <-r.seen:
		require.Failf(r.t, "told", "%+v", s)
	default:
	}
}

func names(posted []recipes.PostedOverride) []string {
	list := make([]string, 0, len(posted))
	for _, p := range posted {
		list = append(list, p.Override.ID)
	}
	return list
}
