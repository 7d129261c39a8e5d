package group

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestNameThatIsTakenIsNotBlamedOnADeadline(t *testing.T) {
	taken := &NameTakenError{Group: "g", Name: "two", Host: "h1", PID: 7, Since: time.Unix(0, 0), Err: context.DeadlineExceeded}
	require.EqualError(t, taken, `group "g" not joined as "two": that participant is there already (host h1, pid 7, since 1970-01-01T00:00:00Z) and did not go in time; end it, or take another name`)
	require.ErrorIs(t, taken, context.DeadlineExceeded)

	taken.Err = zkclient.ErrClosed
	require.ErrorContains(t, taken, "since 1970-01-01T00:00:00Z): "+zkclient.ErrClosed.Error()+"; end it")
}
