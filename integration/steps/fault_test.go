package steps

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A fault is what happens to one frame of one user, and so to that user.
type fault struct {
	name string

	// atReply lets the server carry the request out first.
	atReply bool

	// act happens while the frame, or its answer, is kept; then that goes on its
	// way, unless its connection has ended. nil: the connection ends.
	act func(k *strike)

	// delay is by how much others may have to wait longer.
	delay time.Duration

	expires bool // the session, at once: its holds go before their owner can know
	silent  bool // the session may end, since no client hears of it
	leaves  bool // the user's calls are cancelled
	closes  bool // and its client is closed
	all     bool // everybody is concerned
}

const (
	blink = 2 * time.Second            // for a reconnect, for a new session
	nap   = session*2 + 10*time.Second // until a session has ended of which nothing is heard, and its owner is back
)

// faults are all that can happen.
var faults = []fault{
	// The connection dies before the request arrives, which for the client is the
	// same as before it is carried out; or before its answer does.
	{name: "drop-request", delay: blink},
	{name: "drop-reply", atReply: true, delay: blink},

	// The session ends before the request is carried out; after that, and the
	// answer arrives; or the answer does not.
	{name: "expire-before", expires: true, delay: nap, act: (*strike).expire},
	{name: "expire-after", expires: true, delay: nap, atReply: true, act: (*strike).expire},
	{name: "expire-unheard", expires: true, delay: nap, atReply: true, act: func(k *strike) { k.disconnect(); k.expire() }},

	// The caller leaves while the request is under way, for as long as it is ready
	// to wait or for longer, and with the connection dying on top of that.
	{name: "cancel-before", leaves: true, delay: blink, act: func(k *strike) { k.cancel(20 * time.Millisecond) }},
	{name: "cancel-after", leaves: true, delay: blink, atReply: true, act: func(k *strike) { k.cancel(20 * time.Millisecond) }},
	{name: "cancel-before-long", leaves: true, delay: blink, act: func(k *strike) { k.cancel(800 * time.Millisecond) }},
	{name: "cancel-after-long", leaves: true, delay: blink, atReply: true, act: func(k *strike) { k.cancel(800 * time.Millisecond) }},
	{name: "cancel-drop-request", leaves: true, delay: blink, act: func(k *strike) { k.cancel(20 * time.Millisecond); k.disconnect() }},
	{name: "cancel-drop-reply", leaves: true, delay: blink, atReply: true, act: func(k *strike) { k.cancel(20 * time.Millisecond); k.disconnect() }},

	// The process winds up.
	{name: "close-before", leaves: true, closes: true, delay: blink, act: (*strike).shut},
	{name: "close-after", leaves: true, closes: true, delay: blink, atReply: true, act: (*strike).shut},

	// The server starts anew, with the nodes and sessions that it had.
	{name: "restart-before", all: true, delay: 2 * blink, act: (*strike).restart},
	{name: "restart-after", all: true, delay: 2 * blink, atReply: true, act: (*strike).restart},

	// The request, or its answer, takes longer than the client waits for it, and
	// arrives all the same; or nothing arrives any more, in either direction, for
	// longer than the session lasts.
	{name: "late-request", silent: true, delay: nap, act: func(*strike) { time.Sleep(8 * time.Second) }},
	{name: "late-reply", silent: true, delay: nap, atReply: true, act: func(*strike) { time.Sleep(8 * time.Second) }},
	{name: "silence-before", silent: true, delay: nap, act: (*strike).silence},
	{name: "silence-after", silent: true, delay: nap, atReply: true, act: (*strike).silence},
}

// A strike is a fault that happens to a frame.
type strike struct {
	fault *fault
	frame frame

	s    *stage
	u    *user
	rule *zktest.Rule

	mu      sync.Mutex
	seen    int
	struck  bool
	session int64 // of the frame
}

// prepare sets the trap, before the scene begins.
func (k *strike) prepare(s *stage) {
	k.s = s
	f := s.z.On(zktest.Any().From(k.frame.user).Where(k.hits).Nth(1))
	switch {
	case k.fault.act == nil && k.fault.atReply:
		k.rule = f.DropReply()
	case k.fault.act == nil:
		k.rule = f.DropRequest()
	case k.fault.atReply:
		k.rule = f.HoldReply()
	default:
		k.rule = f.Hold()
	}
}

func (k *strike) hits(q zktest.Request) bool {
	f, ok := k.s.script.frame(q)
	if !ok || f.text != k.frame.text {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen++
	if k.seen != k.frame.n {
		return false
	}
	k.session = q.Session
	k.struck = true
	for _, u := range k.s.everybody() {
		if u.name == k.frame.user {
			k.u = u
		}
	}
	// From now on the outcome may be another one.
	for _, u := range k.s.everybody() {
		if u == k.u || k.fault.all {
			u.suffers(k.fault)
		}
	}
	return true
}

// happened tells whether the frame came.
func (k *strike) happened() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.struck
}

// run waits for the frame, and strikes.
func (k *strike) run(over <-chan struct{}) {
	select {
	case <-k.rule.Reached():
	case <-over:
		k.rule.Remove()
		return
	}
	k.s.tell("fault", "%s at %s", k.fault.name, k.frame)
	if k.fault.act != nil {
		k.fault.act(k)
	}
	k.rule.Remove()
	k.s.tell("fault", "%s is over", k.fault.name)
}

// id is that of the frame's session; of the first frame, the one it has got.
func (k *strike) id() int64 {
	if k.session != 0 {
		return k.session
	}
	for _, s := range k.s.z.Sessions() {
		if s.Name == k.frame.user {
			return s.ID
		}
	}
	return 0
}

func (k *strike) expire() { k.s.z.Expire(k.id()) }

func (k *strike) disconnect() { k.s.z.Disconnect(k.id()) }

func (k *strike) cancel(linger time.Duration) {
	k.u.cancel()
	time.Sleep(linger)
}

func (k *strike) restart() {
	if err := k.s.z.Restart(); err != nil {
		k.s.foul("restart: %v", err)
	}
}

// silence lets nothing pass, then everything that was kept.
func (k *strike) silence() {
	k.s.z.Partition(k.frame.user)
	k.rule.Remove()
	time.Sleep(session + 5*time.Second)
	k.s.z.Heal(k.frame.user)
}

// shut closes the client as a program would that winds up: what it refuses to
// close for is cancelled, and released.
func (k *strike) shut() {
	u := k.u
	closing := make(chan struct{})
	k.s.playing.Go(func() {
		defer close(closing)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for {
			err := u.client.Close(ctx)
			if err == nil || errors.Is(err, lock.ErrClosed) { // once is enough
				break
			}
			if _, busy := errors.AsType[*lock.BusyError](err); !busy {
				k.s.foul("close %s: %v", u.name, err)
				break
			}
			if ctx.Err() != nil {
				k.s.foul("%s cannot be closed after a minute: %v", u.name, err)
				break
			}
			u.cancel()
			time.Sleep(5 * time.Millisecond)
		}
		k.s.tell(u.name, "is closed")
	})
	u.closed.Store(true)
	select {
	case <-closing:
	case <-time.After(20 * time.Millisecond):
	}
}
