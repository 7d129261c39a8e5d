package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// What others have written into ZooKeeper is in errors, too.
func TestErrorsPlayNoTricksOnTheTerminal(t *testing.T) {
	const trick = "\x1b[2J\x9b2J\nlockkeeper: all is well\r"
	for _, err := range []error{
		&lock.StaleTokenError{Scope: "orders", Token: 7, Holders: []lock.Contender{{Identity: priority.Identity{Owner: trick, Host: trick}, Token: 9}}},
		&lock.LostError{Scope: "orders", Reason: lock.LossBroken, By: trick, Why: trick},
		&lock.LostError{Scope: "orders", Reason: lock.LossOverridden, By: trick, Override: &lock.Mark{ID: "INC-7", By: trick, Reason: trick}},
	} {
		out := new(bytes.Buffer)
		(&program{stderr: out}).exit(err)
		require.Equal(t, 1, strings.Count(out.String(), "\n"), "%q", out)
		require.NotContains(t, out.String(), "\x1b")
		require.NotContains(t, out.String(), "\u009b")
		require.NotContains(t, out.String(), "\r")
	}
	out := new(bytes.Buffer)
	(&program{stderr: out}).exit(errors.Join(errors.New("a \x1b[2J"), errors.New("b")))
	require.Equal(t, "lockkeeper: a \uFFFD[2J\nlockkeeper: b\n", out.String())
}
