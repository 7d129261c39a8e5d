package group

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// aloof returns a participant of a group that no server knows of.
func aloof(t *testing.T, notify func(Notice)) *Member {
	t.Helper()
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	c, err := zkclient.NewClient(zkclient.Config{Servers: []string{"zk1:2181"}, Dialer: refused})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &Member{g: &Group{c: c, notify: notify, path: "/g", spec: Spec{Name: "g"}}, c: c, base: context.Background(), cells: map[string]*lockCell{}}
}

func notice(i int) Notice { return Joined{ID: strconv.Itoa(i)} }

func TestNoticesComeOneAfterTheOtherAndTheOldestAreDroppedWhenTooManyWait(t *testing.T) {
	t.Parallel()
	began, proceed := make(chan struct{}, 1), make(chan struct{})
	var told []Notice
	m := aloof(t, func(n Notice) {
		if len(told) == 0 {
			began <- struct{}{}
			<-proceed
		}
		told = append(told, n)
	})

	// given one that the user is busy with, more that wait than are kept
	m.tell(notice(0))
	<-began
	for i := range maxUntold + 5 {
		m.tell(notice(1 + i))
	}
	close(proceed)
	<-m.work.Done()

	// then the first of those that waited are missing, and all others are in order
	want := []Notice{notice(0)}
	for i := range maxUntold {
		want = append(want, notice(6+i))
	}
	require.Equal(t, want, told)
}

func TestNoticesComeAfterOneThatEndedItsGoroutine(t *testing.T) {
	t.Parallel()
	var told []Notice
	m := aloof(t, func(n Notice) {
		told = append(told, n)
		runtime.Goexit()
	})
	m.tell(notice(0))
	m.tell(notice(1))
	select {
	case <-m.work.Done():
	case <-time.After(time.Minute):
		require.FailNow(t, "not all notices came")
	}
	require.Equal(t, []Notice{notice(0), notice(1)}, told)
}
