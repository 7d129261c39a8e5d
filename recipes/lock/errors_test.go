package lock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestWhatOthersHaveWrittenTurnsNoLineRound(t *testing.T) {
	t.Parallel()
	e := &NotAcquiredError{Scope: "orders", Holders: []Contender{{Identity: priority.Identity{Owner: "ann", Host: "db\u202e1", PID: 1}}}}
	require.NotContains(t, e.Error(), "\u202e")
}

func TestRefusalNamesTheHolderAndWhatIsKnownOfIt(t *testing.T) {
	t.Parallel()
	for want, holder := range map[string]Contender{
		`lock "orders" not acquired: held by "ann:1"`:                                       {ID: "_c_5-lock-0000000000", Identity: priority.Identity{Owner: "ann:1"}}, // of a classic recipe
		`lock "orders" not acquired: held by "ann" (priority 0, host here, pid 1, token 7)`: {Identity: priority.Identity{Owner: "ann", Host: "here", PID: 1}, Token: 7},
		`lock "orders" not acquired: held by "ann" (priority 5)`:                            {Identity: priority.Identity{Owner: "ann"}, Terms: priority.Terms{Priority: 5}},
	} {
		require.EqualError(t, &NotAcquiredError{Scope: "orders", Holders: []Contender{holder}}, want)
	}
}

// All clients in the lists may read everything: then it is the node that is
// wrong, not the password.
func TestAccessErrorOfAListedClientDoesNotBlameThePassword(t *testing.T) {
	t.Parallel()
	e := &zkclient.AccessError{Node: "/lockkeeper/ticks/backup", User: "ana", Listed: true, Right: zkclient.PermissionRead}
	require.EqualError(t, e, `ZooKeeper refuses access: the ACL of /lockkeeper/ticks/backup does not allow it to the digest user "ana", who is in the lists of the root: `+
		"the node was made with others; lockkeeper doctor says how to set it right")
	e.Reader = true
	require.NotContains(t, e.Error(), "who may read alone")
	e.Right = zkclient.PermissionWrite
	require.ErrorContains(t, e, "who may read alone")
}
