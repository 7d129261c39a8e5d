package zkproxy_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestDropReply(t *testing.T) {
	s := newStage(t)
	c, events := s.client()
	rule := s.On(zktest.Op(zktest.Create).Path(s.path("*")).Nth(1)).DropReply()

	require.ErrorIs(t, s.create(c, "a"), zk.ErrConnectionClosed)
	s.requireNode("a", true)
	await(t, events, zk.StateHasSession)
	require.ErrorIs(t, s.create(c, "a"), zk.ErrNodeExists)
	require.Equal(t, 1, rule.Fired())
}

func TestDropRequest(t *testing.T) {
	s := newStage(t)
	c, events := s.client()
	before := c.SessionID()
	rule := s.On(zktest.Op(zktest.Create).Path(s.path("a")).Nth(1)).DropRequest()

	require.ErrorIs(t, s.create(c, "a"), zk.ErrConnectionClosed)
	s.requireNode("a", false)
	await(t, events, zk.StateHasSession)
	require.Equal(t, before, c.SessionID())
	require.NoError(t, s.create(c, "a"))
	require.Equal(t, 1, rule.Fired())
}

func TestDelay(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	const delay = 300 * time.Millisecond
	rule := s.On(zktest.Op(zktest.Create).Path(s.path("*"))).Delay(delay)

	began := time.Now()
	done := s.later(c, "a")
	reached(t, rule)
	s.requireNode("a", false)
	require.NoError(t, result(t, done))
	require.GreaterOrEqual(t, time.Since(began), delay)
}

func TestDelayReply(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	const delay = 300 * time.Millisecond
	rule := s.On(zktest.Op(zktest.Create).Path(s.path("*"))).DelayReply(delay)

	began := time.Now()
	done := s.later(c, "a")
	reached(t, rule)
	s.requireNode("a", true)
	require.NoError(t, result(t, done))
	require.GreaterOrEqual(t, time.Since(began), delay)
}

func TestHold(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	other, _ := s.client()
	rule := s.On(zktest.Op(zktest.Create).Path(s.path("held"))).Hold()

	held := s.later(c, "held")
	reached(t, rule)
	behind := s.later(c, "behind")
	require.NoError(t, s.create(other, "other"))
	s.requireNode("held", false)
	s.requireNode("behind", false)
	require.Empty(t, held)

	rule.Release()
	require.NoError(t, result(t, held))
	require.NoError(t, result(t, behind))
	s.requireNode("held", true)
	require.Equal(t, 1, rule.Fired())
}

func TestHoldReply(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	rule := s.On(zktest.Op(zktest.Create).Path(s.path("held"))).HoldReply()

	held := s.later(c, "held")
	reached(t, rule)
	s.requireNode("held", true)
	behind := s.later(c, "behind")
	require.Eventually(t, func() bool { return s.has("behind") }, patience, time.Millisecond)
	require.Empty(t, held)
	require.Empty(t, behind)

	rule.Release()
	require.NoError(t, result(t, held))
	require.NoError(t, result(t, behind))
}

func TestFail(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	rule := s.On(zktest.Op(zktest.Create).Path(s.path("a")).Times(2)).Fail(zktest.NoAuth)
	inside := s.On(zktest.Op(zktest.Multi).Containing(zktest.Delete).Path(s.path("a"))).Fail(zktest.BadVersion)

	require.ErrorIs(t, s.create(c, "a"), zk.ErrNoAuth)
	require.ErrorIs(t, s.create(c, "a"), zk.ErrNoAuth)
	s.requireNode("a", false)
	require.NoError(t, s.create(c, "a"))
	_, err := c.Multi(&zk.DeleteRequest{Path: s.path("a"), Version: -1})
	require.ErrorIs(t, err, zk.ErrBadVersion)
	s.requireNode("a", true)
	require.Equal(t, []int{2, 1}, []int{rule.Fired(), inside.Fired()})
}

func TestHoldEvent(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	require.NoError(t, s.create(c, "a"))
	_, _, changes, err := c.GetW(s.path("a"))
	require.NoError(t, err)
	rule := s.On(zktest.Event(zktest.NodeDeleted).Path(s.path("a"))).Hold()

	require.NoError(t, s.admin.Delete(s.path("a"), -1))
	reached(t, rule)
	require.Empty(t, changes)
	rule.Release()
	require.Equal(t, zk.EventNodeDeleted, result(t, changes).Type)
	require.Equal(t, 1, rule.Fired())
}

func TestDropEvent(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	require.NoError(t, s.create(c, "a"))
	_, _, changes, err := c.GetW(s.path("a"))
	require.NoError(t, err)
	rule := s.On(zktest.Event().Path(s.path("a")).Nth(1)).DropEvent()

	// The client takes its watch to the next connection: the server tells it
	// there what it has missed.
	require.NoError(t, s.admin.Delete(s.path("a"), -1))
	reached(t, rule)
	require.Equal(t, zk.EventNodeDeleted, result(t, changes).Type)
	require.Equal(t, 1, rule.Fired())
}

func TestDelayEvent(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	_, _, changes, err := c.ExistsW(s.path("a"))
	require.NoError(t, err)
	const delay = 300 * time.Millisecond
	s.On(zktest.Event(zktest.NodeCreated)).Delay(delay)

	began := time.Now()
	require.NoError(t, s.create(s.admin, "a"))
	require.Equal(t, zk.EventNodeCreated, result(t, changes).Type)
	require.GreaterOrEqual(t, time.Since(began), delay)
}
