package identity

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The tests of this file are about strangers who were there first: they have
// made nodes before the first daemon came up, in "/", which is open to all.

func (h *fixture) squat(u user, node string, data []byte, acl ...zk.ACL) {
	h.Helper()
	_, err := h.shell(u).Create(node, data, 0, acl)
	require.NoError(h, err)
}

func world(perms int32) zk.ACL { return zk.WorldACL(perms)[0] }

// distrusted requires that a client does not believe what is posted, and says
// whose list it is, and which entry.
func (h *fixture) distrusted(c *lock.Client, node, entry string) {
	h.Helper()
	h.doubted(c, node, entry)
	var untrusted *lock.UntrustedError
	_, err := c.Overrides().List(h.Context())
	require.ErrorAs(h, err, &untrusted)
	require.ErrorAs(h, c.CheckAccess(h.Context()), &untrusted)
	if c.Identity() != "" {
		_, err = c.Overrides().Apply(h.Context(), incident("INC-2", inAnHour()))
		require.ErrorAs(h, err, &untrusted)
		_, err = c.Overrides().Clear(h.Context(), "INC-9")
		require.ErrorAs(h, err, &untrusted)
	}
}

// An operator makes no board where any client could replace it.
func TestNothingIsPostedInARootThatIsOpenToAll(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(anonymous, h.Root, nil, world(zk.PermAll))
	_, err := h.client(ana).Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.EqualError(t, err, `override "INC-1" not applied: `+h.Root+` is not trusted: its ACL has world:anyone:cdrwa, which is every client; set the ACL to those who may use Lockkeeper (docs/security.md says how)`)
	there, _, err := h.shell(anonymous).Exists(h.Root + "/overrides")
	require.NoError(t, err)
	require.False(t, there)
}

func TestRootOfAStrangerIsRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(eve, h.Root, nil, digest(eve))
	for _, c := range []*lock.Client{h.client(ana), h.client(keeper, keeper, ana)} {
		_, err := c.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
		var access *lock.AccessError
		require.ErrorAs(t, err, &access)
		require.ErrorAs(t, works(h.Context(), c), &access)
		require.ErrorAs(t, h.watch(c).next().err, &access) // it is unknown what is in force
	}
}

// A stranger who knows the hashes, as from a configuration file, can let
// all clients in and stay.
func TestRootWhereAStrangerIsLeftIsNotTrusted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(eve, h.Root, nil, digest(eve), digest(keeper), digest(ana))
	h.squat(eve, h.Root+"/overrides", forged("INC-9"), digest(keeper), digest(ana))
	h.distrusted(h.client(keeper, keeper, ana), h.Root, "digest:eve:cdrwa")
	h.distrusted(h.client(ana, keeper, ana), h.Root, "digest:eve:cdrwa")
}

// ZooKeeper hides whose password it is from those who may not change the list.
func TestStrangerOfTheSameNameIsNotTrusted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(eveAsAna, h.Root, nil, digest(eveAsAna), world(zk.PermRead))
	h.squat(eveAsAna, h.Root+"/overrides", forged("INC-9"), digest(eveAsAna), world(zk.PermRead))
	for _, c := range []*lock.Client{h.client(ana), h.client(ana, ana), h.client(anonymous, ana), h.client(keeper, ana)} {
		var untrusted *lock.UntrustedError
		require.ErrorAs(t, h.watch(c).next().err, &untrusted)
		require.Equal(t, "digest:ana:cdrwa", untrusted.Entry)
		_, err := c.Overrides().List(h.Context())
		require.ErrorAs(t, err, &untrusted)
	}
}

// A board of a stranger in a root that has become ours is reported until it is
// removed; then Lockkeeper goes on by itself.
func TestRootIsSetRight(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(eve, h.Root, nil, world(zk.PermAll))
	h.squat(eve, h.Root+"/overrides", forged("INC-9"), digest(eve), world(zk.PermRead))
	c := h.client(keeper, keeper, ana)
	h.distrusted(c, h.Root, "world:anyone:cdrwa")

	shell := h.shell(keeper)
	_, err := shell.SetACL(h.Root, []zk.ACL{digest(keeper), digest(ana)}, -1)
	require.NoError(t, err)
	h.distrusted(c, h.Root+"/overrides", "digest:eve:cdrwa")

	r := h.watch(c)
	require.ErrorAs(t, r.next().err, new(*lock.UntrustedError))
	require.NoError(t, shell.Delete(h.Root+"/overrides", -1))
	r.sees()
	require.NoError(t, c.CheckAccess(h.Context()))
	_, err = c.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)
	r.sees("INC-1")
}

// Clients without credentials trust configured operators, if only these may
// write there.
func TestReaderWithoutCredentialsBelievesOperatorsItCanSee(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(ana, h.Root, nil, digest(ana), world(zk.PermRead))
	_, err := h.client(ana, ana).Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)

	// it sees no hashes, and cannot know whether this is the ana that is meant
	var untrusted *lock.UntrustedError
	told := h.watch(h.client(anonymous, ana)).next()
	require.ErrorAs(t, told.err, &untrusted)
	require.ErrorContains(t, told.err, "it may be another user of that name; let an operator run lockkeeper init")

	// one with the right to see them can
	_, err = h.shell(ana).SetACL(h.Root, []zk.ACL{digest(ana), {Perms: zk.PermRead, Scheme: "digest", ID: digest(keeper).ID}}, -1)
	require.NoError(t, err)
	_, err = h.client(keeper, ana).Overrides().List(h.Context())
	require.ErrorAs(t, err, &untrusted)
	_, err = h.shell(ana).SetACL(h.Root, []zk.ACL{digest(ana), digest(keeper)}, -1)
	require.NoError(t, err)
	h.watch(h.client(keeper, ana)).sees("INC-1")
}

func TestAuditTrailThatAStrangerHasMadeIsReported(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(eve, h.Root, nil, world(zk.PermAll))
	h.squat(eve, h.Root+"/audit", nil, world(zk.PermAll))
	h.squat(eve, h.Root+"/audit/log", nil, world(zk.PermAll))
	c := h.client(keeper, keeper)
	_, err := h.audit(c).Append(h.Context(), entry("batch"))
	require.NoError(t, err)
	told := func(node, entry string) {
		t.Helper()
		report, err := h.audit(c).Verify(h.Context())
		require.NoError(t, err)
		require.Nil(t, report.Broken)
		require.NotNil(t, report.Untrusted)
		require.Equal(t, node, report.Untrusted.Node)
		require.Equal(t, entry, report.Untrusted.Entry)
	}
	shell := h.shell(keeper)
	for _, node := range []string{"", "/audit", "/audit/log"} {
		told(h.Root+node, "world:anyone:cdrwa")
		_, err = shell.SetACL(h.Root+node, []zk.ACL{digest(keeper)}, -1)
		require.NoError(t, err)
	}
	report, err := h.audit(c).Verify(h.Context())
	require.NoError(t, err)
	require.Nil(t, report.Untrusted)
}
