package robust

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// A canary watches the servers themselves: it writes to one node again and again,
// past all links, and sees whether what was acknowledged is still there. If
// ZooKeeper forgets, no lock on it can keep its promises.
type canary struct {
	conn *zk.Conn
	stop context.CancelFunc
	over sync.WaitGroup

	mu     sync.Mutex
	acked  int32                   // version of the last write that was acknowledged, or seen
	when   map[int32]time.Duration // it was
	lapses []Lapse
	slow   []span
	asked  []time.Duration // of each server: since when it has owed an answer; 0: it owes none

	patience time.Duration // a server that takes longer to answer is slow
}

// A span is a time in which a server was slower than a promise allows for.
type span struct{ from, to time.Duration }

// A Lapse is a time from which the servers have forgotten writes that they had
// acknowledged.
type Lapse struct {
	Since, Seen time.Duration // when the first of them was acknowledged, and when the canary noticed
	Writes      int           // of the canary's
}

const canaryNode = "/robust-canary"

// newCanary watches the servers; one that takes longer than patience to answer is slow.
func newCanary(servers string, patience time.Duration) (*canary, error) {
	conn, _, err := zk.Connect(strings.Split(servers, ","), 4*time.Second, zk.WithLogger(silence{}))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &canary{conn: conn, stop: stop, acked: -1, when: make(map[int32]time.Duration), patience: patience}
	c.over.Go(func() { c.sing(ctx) })
	each := strings.Split(servers, ",")
	c.asked = make([]time.Duration, len(each))
	for i, server := range each {
		one, _, err := zk.Connect([]string{server}, 4*time.Second, zk.WithLogger(silence{}))
		if err != nil {
			c.close()
			return nil, err
		}
		context.AfterFunc(ctx, one.Close) // also ends a call that has no answer
		c.over.Go(func() { c.time(ctx, i, one) })
	}
	return c, nil
}

// time asks one server again and again how far the ensemble has come, and notes when that took long: a client
// there hears as late of its grant, or of its end.
func (c *canary) time(ctx context.Context, server int, conn *zk.Conn) {
	for ctx.Err() == nil {
		began := history.Now()
		c.mu.Lock()
		c.asked[server] = began
		c.mu.Unlock()
		_, err := conn.Sync("/")
		now := history.Now()
		c.mu.Lock()
		c.asked[server] = 0
		if err != nil || now-began > c.patience {
			c.slow = append(c.slow, span{began, now})
		}
		c.mu.Unlock()
		pause(ctx, 20*time.Millisecond)
	}
}

// slowness returns when servers were slow, up to now.
func (c *canary) slowness() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.slow)
	for _, since := range c.asked {
		if now := history.Now(); since != 0 && now-since > c.patience {
			all = append(all, span{since, now})
		}
	}
	return all
}

type silence struct{}

func (silence) Printf(string, ...any) {}

func (c *canary) sing(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.write(); err != nil {
			_ = c.look()
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (c *canary) write() error {
	c.mu.Lock()
	version := c.acked
	c.mu.Unlock()
	if version < 0 {
		return errors.New("not made yet")
	}
	stat, err := c.conn.Set(canaryNode, nil, version)
	if err == nil {
		c.note(stat.Version)
	}
	return err
}

// look reads how far the node has come.
func (c *canary) look() error {
	if _, err := c.conn.Sync(canaryNode); err != nil {
		return err
	}
	_, stat, err := c.conn.Get(canaryNode)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.note(-1)
		_, err = c.conn.Create(canaryNode, nil, 0, zk.WorldACL(zk.PermAll))
		return err
	case err != nil:
		return err
	}
	c.note(stat.Version)
	return nil
}

// note takes note of a version that the servers have shown.
func (c *canary) note(version int32) {
	now := history.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if version < c.acked {
		since := now
		for v := version + 1; v <= c.acked; v++ {
			if at, ok := c.when[v]; ok {
				since = min(since, at)
			}
		}
		c.lapses = append(c.lapses, Lapse{Since: since, Seen: now, Writes: int(c.acked - version)})
	}
	c.acked, c.when[version] = version, now
	delete(c.when, version-100_000)
}

// close ends the canary, and returns what it has seen.
func (c *canary) close() []Lapse {
	c.stop()
	c.conn.Close() // also ends a call that has no answer
	c.over.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lapses
}

func (l Lapse) String() string {
	return fmt.Sprintf(
		"at %.1f the servers had forgotten what they had acknowledged from %.1f on: %d writes of the canary",
		l.Seen.Seconds(), l.Since.Seconds(), l.Writes)
}

// extra is what a server of ZooKeeper 3.8 logs when it removes the nodes of a session, and has some of which
// the leader did not know.
var extra = regexp.MustCompile(`Unexpected extra paths under session \[([^\]]*)\]`)

// disagreements returns the locks of which a server has had nodes that the leader did not have: its log says
// so. What a client reads there is not what its transactions are checked against, so it can neither take such
// a lock nor see who has it.
func disagreements(log string) (scopes []string) {
	for _, found := range extra.FindAllStringSubmatch(log, -1) {
		for node := range strings.SplitSeq(found[1], ", ") {
			scope, err := url.PathUnescape(path.Base(path.Dir(node)))
			if err == nil && !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return scopes
}
