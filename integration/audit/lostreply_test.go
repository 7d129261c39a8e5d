package audit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestEntryWhoseAnswerIsLostIsOnRecordOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*zktest.Fault) *zktest.Rule{
		"not executed": (*zktest.Fault).DropRequest, "executed": (*zktest.Fault).DropReply,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			wire := zktest.RunProxyT(t, h.Server.Addr())
			mine, others := logOf(t, h.Client(harness.Servers(wire.Addr())), 0), logOf(t, h.Client(), 0)
			appendAll(t, mine, 1, 1)
			for n := 2; n <= 6; n++ {
				// when others append meanwhile
				lost := lose(wire.On(zktest.Op(zktest.Multi).Nth(1)))
				var all sync.WaitGroup
				all.Go(func() { appendAll(t, others, 100+n, 100+n) })
				r, err := mine.Append(t.Context(), entry(n))
				all.Wait()

				// then
				require.NoError(t, err)
				require.Equal(t, 1, lost.Fired())
				records, _, err := mine.Read(t.Context(), opstore.AuditQuery{By: entry(n).By})
				require.NoError(t, err)
				require.Equal(t, []opstore.AuditRecord{r}, records)
			}
			holds(t, mine, 1, 11)
		})
	}
}

func TestEntryWhoseAnswerIsLostWithTheSessionIsOnRecordOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	wire := zktest.RunProxyT(t, h.Server.Addr())
	client := h.Client(harness.Servers(wire.Addr()))
	l := logOf(t, client, 0)
	appendAll(t, l, 1, 1)

	// when
	lost := wire.On(zktest.Op(zktest.Multi).Nth(1)).DropReply()
	done := harness.Go(t, "Append", func() (opstore.AuditRecord, error) { return l.Append(t.Context(), entry(2)) })
	<-lost.Reached()
	h.Expire(client)

	// then
	done.Granted()
	holds(t, l, 1, 2)
}

func TestAppendGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	l := logOf(t, h.Client(harness.Servers("127.0.0.1:1")), 0)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too slow"))
	defer cancel()
	_, err := l.Append(ctx, entry(1))
	var unavailable *lock.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	require.ErrorContains(t, err, `audit trail: preempt of "cluster/orders/1" not put on record: too slow`)
}
