package helix

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// childVariable makes this test binary a process of its own, with a guard that
// takes orders.
const childVariable = "HELIX_TEST_CHILD"

// identity is what a child gets at its start.
type identity struct {
	Servers []string
	Root    string
	Owner   string
	Session time.Duration
}

// An order is one line to a child.
type order struct {
	Do          string // "acquire", "release", "look"
	Requirement lockguard.Requirement
}

// report is one line of a child.
type report struct {
	Event string    // the name of an event; else "started" or "seen"
	Clock time.Time // on the child's clock
	Heard time.Time `json:"-"` // on the clock of the test

	Token  lockguard.Token
	Reason priority.Reason
	Grace  time.Duration // from event to deadline, as the child sees it
	Error  string
	Lock   lock.State
}

// beChild obeys until its orders end.
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
	c, err := lock.NewClient(lock.Config{Servers: me.Servers, Root: me.Root, SessionTimeout: me.Session, ConnectTimeout: harness.Patience})
	if err != nil {
		return err
	}
	guard, err := lockguard.New(c, lockguard.WithOwner(me.Owner), lockguard.WithObserver(func(_ context.Context, e lockguard.Event) {
		_ = say(reportOn(e))
	}))
	if err != nil {
		return err
	}
	if err := say(report{Event: "started"}); err != nil {
		return err
	}
	ctx := context.Background()
	var hold *lockguard.Hold
	var asking sync.WaitGroup
	orders := json.NewDecoder(os.Stdin)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch o.Do {
		case "acquire":
			asking.Wait()
			asking.Go(func() { hold, _ = guard.Acquire(ctx, o.Requirement) })
		case "release":
			asking.Wait()
			_ = hold.Release(ctx)
		case "look":
			lock, err := c.Lock(ctx, scope)
			if err != nil {
				return err
			}
			if err := say(report{Event: "seen", Lock: lock}); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown order %q", o.Do)
		}
	}
}

func reportOn(e lockguard.Event) report {
	r := report{Event: name(e), Token: e.Token}
	switch n := e.Notice.(type) {
	case lock.PreemptRequested:
		r.Reason, r.Grace = n.Reason, n.Deadline.Sub(e.At)
	case lock.PreemptSent:
		r.Reason, r.Grace = n.Reason, n.Grace
	case lockguard.NotAcquired:
		r.Error = n.Err.Error()
	case lockguard.Lost:
		r.Error = n.Err.Error()
	}
	return r
}

// process is a child, as the test sees it.
type process struct {
	*harness.Notices[report]
	f     *fixture
	owner string
	cmd   *exec.Cmd
	in    *json.Encoder
	ahead time.Duration // its wall clock, of that of the test
}

// process starts a child. With start, that starts the command in its own way.
func (f *fixture) process(owner string, session time.Duration, start func(*exec.Cmd) error) *process {
	f.Helper()
	self, err := os.Executable()
	require.NoError(f, err)
	me, err := json.Marshal(identity{Servers: []string{f.Server.Addr()}, Root: f.Root, Owner: owner, Session: session})
	require.NoError(f, err)
	p := &process{Notices: harness.NewNotices[report](f.History, owner), f: f, owner: owner, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(me))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe() // its end ends the child
	require.NoError(f, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(f, err)
	p.in = json.NewEncoder(in)
	require.NoError(f, start(p.cmd))

	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for s := bufio.NewScanner(out); s.Scan(); {
			r := report{Heard: time.Now()}
			if err := json.Unmarshal(s.Bytes(), &r); err != nil {
				r = report{Event: "unreadable", Error: fmt.Sprintf("%v: %s", err, s.Bytes())}
			}
			p.Add(r)
		}
	}()
	f.Cleanup(func() {
		_ = in.Close()
		_ = p.cmd.Process.Kill()
		<-heard
		_ = p.cmd.Wait()
	})
	started := p.await("started")
	p.ahead = started.Clock.Sub(started.Heard)
	return p
}

// order tells the child what to do.
func (p *process) order(do string, changes ...change) {
	p.f.Helper()
	require.NoError(p.f, p.in.Encode(order{do, requirement(changes...)}))
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

// plainly starts a child like any other.
func plainly(cmd *exec.Cmd) error { return cmd.Start() }
