package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A slowTrail has each act put on record when the test says so, whatever becomes of
// who waits for that.
type slowTrail struct {
	*opstore.AuditLog
	asked chan opstore.AuditEntry
	start chan struct{}
}

func (s *slowTrail) Append(ctx context.Context, e opstore.AuditEntry) (opstore.AuditRecord, error) {
	if e.Phase == opstore.AuditIntent {
		s.asked <- e
		<-s.start
	}
	return s.AuditLog.Append(context.WithoutCancel(ctx), e)
}

// handOn is what a console works with, and a lock that is held.
func handOn(t *testing.T) (*consoleHand, *slowTrail, *lock.Grant) {
	t.Helper()
	zk := zktest.RunT(t)
	client := connect(t, zk, ana)
	log, err := client.AuditLog(0)
	require.NoError(t, err)
	trail := &slowTrail{AuditLog: log, asked: make(chan opstore.AuditEntry, 10), start: make(chan struct{})}
	h, err := newConsoleHand(client, nil, &consoleFacts{client: client, config: func() *config.Config { return nil }}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	h.Operator, err = emergency.NewOperator(client, trail)
	require.NoError(t, err)
	t.Cleanup(h.end)
	return h, trail, acquire(t, client, "cluster/orders", lock.Request{Identity: priority.Identity{Owner: "batch"}})
}

func byForce() console.Preemption {
	return console.Preemption{Scope: "cluster/orders", By: console.By{Name: "ana", Reason: "INC-4411"}, Force: true, Grace: new(time.Duration)}
}

func TestPreemptionDoesNotBeginAfterItsCallerWasToldThatItFailed(t *testing.T) {
	h, trail, grant := handOn(t)
	ctx, giveUp := context.WithCancel(t.Context())
	told := make(chan error, 1)
	go func() {
		_, err := h.Preempt(ctx, byForce())
		told <- err
	}()
	<-trail.asked

	// when its caller waits no longer, at the moment that it is put on record
	giveUp()
	close(trail.start)
	err := <-told
	h.running.Wait()

	// then
	state, failure := h.client.Lock(t.Context(), "cluster/orders")
	require.NoError(t, failure)
	require.True(t, state.Held(), "it was preempted after all")
	require.NoError(t, grant.Check())
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "no holder was preempted")
	all, err := h.client.Overrides().List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	records, _, err := trail.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	require.Equal(t, opstore.AuditFailed, records[len(records)-1].Result)
}

func TestPreemptionThatHasBegunGoesOnWithoutItsCaller(t *testing.T) {
	h, trail, _ := handOn(t)
	ctx, giveUp := context.WithCancel(t.Context())
	close(trail.start)

	// when
	done, err := h.Preempt(ctx, byForce())
	giveUp()
	h.running.Wait()

	// then
	require.NoError(t, err)
	require.NotEmpty(t, done.Act)
	require.Contains(t, done.Text, "batch is preempted")
	state, err := h.client.Lock(t.Context(), "cluster/orders")
	require.NoError(t, err)
	require.False(t, state.Held())
}
