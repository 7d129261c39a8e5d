package helix

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/wallclock"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// childVariable makes this test binary a process of its own, with one request.
const childVariable = "HELIX_TEST_CHILD"

// identity is what a child gets at its start.
type identity struct {
	Server      string
	Root        string
	Owner       string
	Requirement lockguard.Requirement
}

// report is one line of a child.
type report struct {
	Event string    // the name of an event; else "seen"
	Clock time.Time // on the child's clock
	heard time.Time // on the clock of the test

	Grace time.Duration // from event to deadline, as the child sees it
	Error string
	Lock  lock.State // what it sees when it is granted or refused
}

// beChild makes a request, and keeps the lock until its input ends.
func beChild() error {
	var me identity
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &me); err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(r report) error {
		mu.Lock()
		defer mu.Unlock()
		r.Clock = time.Now()
		return out.Encode(r)
	}
	c, err := lock.NewClient(lock.Config{
		Servers: []string{me.Server}, Root: me.Root, SessionTimeout: harness.Session, ConnectTimeout: harness.Patience,
	})
	if err != nil {
		return err
	}
	guard, err := lockguard.New(c, lockguard.WithOwner(me.Owner), lockguard.WithObserver(func(_ context.Context, e lockguard.Event) {
		_ = say(reportOn(e))
	}))
	if err != nil {
		return err
	}
	ctx := context.Background()
	hold, refused := guard.Acquire(ctx, me.Requirement)
	seen, err := c.Lock(ctx, scope)
	if err != nil {
		return err
	}
	if err := say(report{Event: "seen", Lock: seen, Error: fmt.Sprint(refused)}); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if hold != nil {
		_ = hold.Release(ctx)
	}
	return c.Close(ctx)
}

func reportOn(e lockguard.Event) report {
	r := report{Event: name(e)}
	switch n := e.Notice.(type) {
	case lock.PreemptRequested:
		r.Grace = n.Deadline.Sub(e.At)
	case lock.PreemptSent:
		r.Grace = n.Grace
	case lockguard.Lost:
		r.Error = n.Err.Error()
	}
	return r
}

// process is a child, as the test sees it.
type process struct {
	*harness.Notices[report]
	f     *fixture
	began time.Time // its request, on its own clock
	end   func()    // has it release what it holds, and waits until it has ended
}

// processAhead starts a child whose wall clock is wrong, and checks that it is. Its monotonic clock is right.
func (f *fixture) processAhead(owner string, ahead time.Duration, changes ...change) *process {
	f.Helper()
	self, err := os.Executable()
	require.NoError(f, err)
	me, err := json.Marshal(identity{f.Server.Addr(), f.Root, owner, requirement(changes...)})
	require.NoError(f, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(me))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(f, err)
	out, err := cmd.StdoutPipe()
	require.NoError(f, err)
	require.NoError(f, new(wallclock.Clock).Start(cmd, ahead))

	p := &process{Notices: harness.NewNotices[report](f.History, owner), f: f}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for s := bufio.NewScanner(out); s.Scan(); {
			r := report{heard: time.Now()}
			if err := json.Unmarshal(s.Bytes(), &r); err != nil {
				r = report{Event: "unreadable", Error: fmt.Sprintf("%v: %s", err, s.Bytes())}
			}
			p.Add(r)
		}
	}()
	p.end = func() {
		_ = in.Close()
		harness.Receive(f, heard, "%s does not end", owner)
	}
	f.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		<-heard
		_ = cmd.Wait()
	})
	first := harness.Await[report](f, p.Notices)
	require.InDelta(f, ahead, first.Clock.Sub(first.heard), float64(time.Minute), "the clock of %s", owner)
	p.began = first.Clock
	return p
}

// sees returns the one holder that is seen when the request is granted or refused.
func (p *process) sees() lock.Contender {
	p.f.Helper()
	seen := p.await("seen")
	require.Len(p.f, seen.Lock.Holders, 1, seen.Error)
	return seen.Lock.Holders[0]
}

// await waits for the next report of an event, behind the one awaited last.
func (p *process) await(event string) report {
	p.f.Helper()
	for {
		r := harness.Await[report](p.f, p.Notices)
		if r.Event == event {
			return r
		}
	}
}

// count returns how often a child has reported an event.
func (p *process) count(event string) (n int) {
	for _, r := range p.List() {
		if r.Event == event {
			n++
		}
	}
	return n
}
