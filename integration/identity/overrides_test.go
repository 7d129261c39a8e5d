package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestOverridesArePostedReplacedAndCleared(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	board := h.client(keeper, ana).Overrides
	mine := h.client(ana, keeper, ana).Overrides()
	r := h.watch(h.client(keeper, ana))
	r.sees()

	was, err := mine.Apply(h.Context(), incident("INC-2", inAnHour()))
	require.NoError(t, err)
	require.Nil(t, was)
	first := r.sees("INC-2")[0]
	require.Equal(t, "digest:ana", first.PostedBy)
	require.WithinDuration(t, time.Now(), first.PostedAt, time.Minute)

	_, err = mine.Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	r.sees("INC-1", "INC-2")

	changed := incident("INC-2", inAnHour())
	changed.Reason = "disk still full"
	was, err = mine.Apply(h.Context(), changed)
	require.NoError(t, err)
	require.Equal(t, "disk full", was.Reason)
	require.Equal(t, "disk still full", r.sees("INC-1", "INC-2")[1].Override.Reason)

	cleared, err := mine.Clear(h.Context(), "INC-2")
	require.NoError(t, err)
	require.Equal(t, "disk still full", cleared.Reason)
	r.sees("INC-1")

	_, err = mine.Clear(h.Context(), "INC-2")
	require.EqualError(t, err, `override "INC-2" not cleared: there is none of that name, or it has ended; there are INC-1`)
	all, err := board().List(h.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"INC-1"}, names(all))
	r.silent()
}

func TestOverridesThatHaveEndedGoWithTheNextWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Pipe())
		board := harness.NewClient(t, lock.Config{Dialer: server.Dialer("ana"), Auth: &lock.Digest{User: "ana", Password: "secret"}}).Overrides()
		posted := func() string {
			node, err := server.Get("/lockkeeper/overrides")
			require.NoError(t, err)
			return string(node.Data)
		}
		for _, o := range []override.Override{incident("short", time.Now().Add(time.Minute)), incident("long", inAnHour())} {
			_, err := board.Apply(t.Context(), o)
			require.NoError(t, err)
		}
		<-time.After(time.Minute)
		require.Contains(t, posted(), `"short"`)
		_, err := board.Apply(t.Context(), incident("long", inAnHour()))
		require.NoError(t, err)
		require.NotContains(t, posted(), `"short"`)
		_, err = board.Clear(t.Context(), "short")
		require.ErrorAs(t, err, new(*opstore.NoOverrideError))
	})
}

func TestWhatCannotBeOnTheBoardIsRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(keeper)
	_, err := c.Overrides().Apply(h.Context(), override.Override{ID: "a b", Kind: "stop", Until: time.Now().Add(-time.Hour)})
	var bad *override.FieldError
	require.ErrorAs(t, err, &bad)
	for _, field := range []string{"id:", "kind:", "until:", "by:", "reason:"} {
		require.ErrorContains(t, err, field)
	}
	all, err := c.Overrides().List(h.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestBoardIsBounded(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(keeper)
	harness.Together(t, 4, func(ctx context.Context, i int) error { // and nothing that several write at once gets lost
		for n := range opstore.MaxOverrides / 4 {
			if _, err := c.Overrides().Apply(ctx, incident(fmt.Sprintf("INC-%d-%d", i, n), inAnHour())); err != nil {
				return err
			}
		}
		return nil
	})
	all, err := c.Overrides().List(h.Context())
	require.NoError(t, err)
	require.Len(t, all, opstore.MaxOverrides)
	_, err = c.Overrides().Apply(h.Context(), incident("one-more", inAnHour()))
	require.ErrorContains(t, err, `override "one-more" not applied: 100 overrides are in force already; clear some`)
	_, err = c.Overrides().Apply(h.Context(), incident("INC-0-0", inAnHour()))
	require.NoError(t, err, "one in the place of another")
}

func TestReaderHearsOfChangesInTheNextSession(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(keeper)
	r := h.watch(c)
	r.sees()
	_, err := c.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	r.sees("INC-1")

	h.Expire(c)
	_, err = h.client(keeper).Overrides().Clear(h.Context(), "INC-1")
	require.NoError(t, err)
	r.sees()
	_, err = h.client(keeper).Overrides().Apply(h.Context(), incident("INC-2", inAnHour()))
	require.NoError(t, err)
	r.sees("INC-2")
	r.silent()
}

func TestBoardThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(keeper)
	_, err := c.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	r := h.watch(c)
	r.sees("INC-1")
	shell := h.shell(keeper)
	_, err = shell.Set(h.Root+"/overrides", []byte(`{"format": 1, "overrides": [{`), -1)
	require.NoError(t, err)
	require.ErrorContains(t, r.next().err, "the list cannot be read")
	_, err = c.Overrides().Apply(h.Context(), incident("INC-2", inAnHour()))
	require.ErrorContains(t, err, "the list cannot be read")
	_, err = shell.Set(h.Root+"/overrides", []byte(`{"format": 2}`), -1)
	require.NoError(t, err)
	require.ErrorContains(t, r.next().err, "upgrade it")
	_, err = c.Overrides().Apply(h.Context(), incident("INC-2", inAnHour()))
	require.ErrorContains(t, err, "upgrade it")
	kept, _, err := shell.Get(h.Root + "/overrides")
	require.NoError(t, err)
	require.Equal(t, `{"format": 2}`, string(kept))

	// an administrator empties it
	_, err = shell.Set(h.Root+"/overrides", nil, -1)
	require.NoError(t, err)
	r.sees()
	require.NoError(t, shell.Delete(h.Root+"/overrides", -1))
	r.sees()
	_, err = c.Overrides().Apply(h.Context(), incident("INC-3", inAnHour()))
	require.NoError(t, err)
	r.sees("INC-3")
}

func TestBoardIsWrittenByOperatorsAndReadByAllOthersOfTheRoot(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	daemon := h.client(keeper, ana)
	require.NoError(t, makeRoot(h, daemon))

	_, err := daemon.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.EqualError(t, err, `override "INC-1" not applied: digest:keeper is none of the operators (digest:ana); use the credentials of one (zookeeper.auth, or --zk-digest-file), or add digest:keeper to zookeeper.operators`)
	require.ErrorAs(t, err, new(*lock.IdentityError))

	_, err = h.client(ana).Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err, "without the list every member of the root is one")
	all, err := daemon.Overrides().List(h.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"INC-1"}, names(all))
	_, err = h.shell(keeper).Set(h.Root+"/locks", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoNode)

	// the list goes with the configuration of the last writer
	_, err = h.client(ana, ana, bob, keeper).Overrides().Apply(h.Context(), incident("INC-2", inAnHour()))
	require.NoError(t, err)
	acl, _, err := h.shell(ana).GetACL(h.Root + "/overrides")
	require.NoError(t, err)
	require.ElementsMatch(t, []zk.ACL{digest(ana), digest(bob), digest(keeper)}, acl)

	other := h.client(ana, ana)
	_, err = other.Overrides().Apply(h.Context(), incident("INC-3", inAnHour()))
	var untrusted *lock.UntrustedError
	require.ErrorAs(t, err, &untrusted)
	require.Equal(t, lock.UntrustedError{Node: h.Root, Entry: "digest:keeper:cdrwa", Why: "who is neither this client nor one of zookeeper.operators: add it there (" + keeper.id() + ") if it is one of yours, else take it from the ACL"}, *untrusted)
}

func digest(u user) zk.ACL { return zk.DigestACL(zk.PermAll, u.name, u.password)[0] }

// makeRoot has a client make the root, as the first daemon does.
func makeRoot(h *fixture, c *lock.Client) error {
	o, err := c.Approvals().Open(h.Context(), opstore.ApprovalRequest{Scope: "first"})
	return errors.Join(err, closeApproval(h, o))
}

func closeApproval(h *fixture, o *opstore.OpenApproval) error {
	if o == nil {
		return nil
	}
	return o.Close(h.Context())
}

func TestOpenDeploymentHasNoOverrides(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(anonymous)
	require.NoError(t, makeRoot(h, c))
	r := h.watch(c)
	r.sees()

	_, err := c.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.EqualError(t, err, `override "INC-1" not applied: this client has no credentials, so no record could name it; give some (zookeeper.auth, or --zk-digest-file)`)
	_, err = c.Overrides().Clear(h.Context(), "INC-1")
	require.ErrorAs(t, err, new(*lock.IdentityError))

	// an override that a stranger puts there is reported, and not applied
	_, err = h.shell(anonymous).Create(h.Root+"/overrides", forged("INC-9"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	var untrusted *lock.UntrustedError
	told := r.next()
	require.ErrorAs(t, told.err, &untrusted)
	require.Empty(t, told.posted)
	require.Equal(t, h.Root, untrusted.Node)
	require.Equal(t, "world:anyone:cdrwa", untrusted.Entry)
	all, err := c.Overrides().List(h.Context())
	require.ErrorAs(t, err, &untrusted)
	require.Equal(t, []string{"INC-9"}, names(all), "for people to see")
}

// forged is a board as somebody who reads the code would write it.
func forged(id string) []byte {
	until := inAnHour().UTC().Format(time.RFC3339)
	return []byte(strings.NewReplacer("ID", id, "UNTIL", until).Replace(
		`{"format":1,"overrides":[{"override":{"id":"ID","kind":"freeze","match":{},"until":"UNTIL","by":"ana","reason":"because"},"posted_by":"digest:ana","posted_at":"UNTIL","write":"w"}]}`))
}
