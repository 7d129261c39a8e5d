package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A contestant takes and gives back a lock with work in between.
type contestant struct {
	name  string
	setup func(t testing.TB, server string, clients int) (cycle func(client int, lock string, work func()) error)
}

var (
	raw     = contestant{"create+delete", rawCycles}
	bare    = contestant{"T1+T5", bareCycles}
	peer    = contestant{"zk.Lock", zkLockCycles}
	product = contestant{"PriorityLock", productCycles}
)

const (
	turns    = 9
	turn     = 600 * time.Millisecond
	warmUp   = time.Second
	deadline = time.Minute
)

// rates returns the median cycles per second of each contestant.
func rates(b *testing.B, server string, clients int, lock func(client int) string, work func(), contestants ...contestant) map[string]float64 {
	cycles := make([]func(int, string, func()) error, len(contestants))
	for i, c := range contestants {
		cycles[i] = c.setup(b, server, clients)
	}
	for i := range contestants {
		run(b, cycles[i], clients, lock, work, warmUp)
	}
	measured := make(map[string][]float64)
	for range turns {
		for i, c := range contestants {
			measured[c.name] = append(measured[c.name], run(b, cycles[i], clients, lock, work, turn))
		}
	}
	medians := make(map[string]float64, len(contestants))
	for name, rates := range measured {
		slices.Sort(rates)
		medians[name] = rates[len(rates)/2]
	}
	return medians
}

// warm lets a new server's compiler see everything that will be measured: for
// its first ten seconds it gets faster by a factor of four.
func warm(b *testing.B, server string) {
	const clients, rounds = 8, 4
	own := func(client int) string { return fmt.Sprint("warm-", client) }
	one := func(int) string { return "warm" }
	contestants := []contestant{raw, bare, peer, product}
	cycles := make([]func(int, string, func()) error, len(contestants))
	for i, c := range contestants {
		cycles[i] = c.setup(b, server, clients)
	}
	for range rounds {
		for i, c := range contestants {
			run(b, cycles[i], clients, own, nothing, turn)
			if c.name == peer.name || c.name == product.name {
				run(b, cycles[i], clients, one, nothing, turn)
			}
		}
	}
}

// run lets every client cycle for d and returns cycles per second in all.
func run(b *testing.B, cycle func(int, string, func()) error, clients int, lock func(int) string, work func(), d time.Duration) float64 {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	start := time.Now()
	for i := range clients {
		all.Go(func() {
			for time.Since(start) < d && failed.Load() == nil {
				if err := cycle(i, lock(i), work); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		require.NoError(b, *err)
	}
	return float64(done.Load()) / time.Since(start).Seconds()
}

func connect(t testing.TB, server string, clients int) []*zk.Conn {
	conns := make([]*zk.Conn, clients)
	for i := range conns {
		conn, events, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		for e := range events {
			if e.State == zk.StateHasSession {
				break
			}
		}
		conns[i] = conn
	}
	return conns
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func ensure(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// rawCycles is the limit: what any lock with a node of its own has to write.
func rawCycles(t testing.TB, server string, clients int) func(int, string, func()) error {
	conns := connect(t, server, clients)
	require.NoError(t, ensure(conns[0], "/raw"))
	known := make([]map[string]bool, clients)
	return func(i int, lock string, work func()) error {
		conn, parent := conns[i], "/raw/"+lock
		if !known[i][lock] {
			if err := ensure(conn, parent); err != nil {
				return err
			}
			known[i] = map[string]bool{lock: true}
		}
		path, err := conn.Create(parent+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			return err
		}
		work()
		return conn.Delete(path, -1)
	}
}

// bareCycles sends the transactions T1 and T5 of docs/protocol.md and does
// nothing else: the limit of an uncontended lock that works like ours.
func bareCycles(t testing.TB, server string, clients int) func(int, string, func()) error {
	const root = "/bare-transactions"
	conns := connect(t, server, clients)
	require.NoError(t, ensure(conns[0], root))
	require.NoError(t, ensure(conns[0], root+"/locks"))
	versions := make([]map[string]int32, clients)
	return func(i int, lock string, work func()) error {
		conn, parent := conns[i], root+"/locks/"+lock
		if _, known := versions[i][lock]; !known {
			if err := ensure(conn, parent); err != nil {
				return err
			}
			_, stat, err := conn.Get(parent)
			if err != nil {
				return err
			}
			versions[i] = map[string]int32{lock: stat.Version}
		}
		r, err := conn.Multi(
			&zk.CheckVersionRequest{Path: root, Version: 0},
			&zk.CreateRequest{
				Path: parent + "/2147483647-x-0123456789abcdef01234567-", Data: bareRequest,
				Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral | zk.FlagSequence,
			},
			&zk.SetDataRequest{Path: parent, Data: bareGrant, Version: versions[i][lock]})
		if err != nil {
			return err
		}
		versions[i][lock] = r[2].Stat.Version
		work()
		return conn.Delete(r[1].String, -1)
	}
}

var (
	bareRequest = []byte(`{"format":1,"owner":"bench","host":"localhost","pid":12345,"priority":0,"mode":"exclusive",` +
		`"lease_timeout_ms":600000,"cleanup_timeout_ms":0,"granted":true}`)
	bareGrant = []byte(`{"format":1,"holders":["0123456789abcdef01234567"]}`)
)

func zkLockCycles(t testing.TB, server string, clients int) func(int, string, func()) error {
	conns := connect(t, server, clients)
	locks := make([]map[string]*zk.Lock, clients)
	return func(i int, lock string, work func()) error {
		l := locks[i][lock]
		if l == nil {
			l = zk.NewLock(conns[i], "/zklock/"+lock, zk.WorldACL(zk.PermAll))
			locks[i] = map[string]*zk.Lock{lock: l}
		}
		if err := l.Lock(); err != nil {
			return err
		}
		work()
		return l.Unlock()
	}
}

func productCycles(t testing.TB, server string, clients int) func(int, string, func()) error {
	cs := make([]*lock.Client, clients)
	for i := range cs {
		cs[i] = client(t, server)
	}
	locks := make([]map[string]*lock.PriorityLock, clients)
	ctx := cancellable(t)
	return func(i int, scope string, work func()) error {
		l := locks[i][scope]
		if l == nil {
			var err error
			if l, err = cs[i].PriorityLock(scope); err != nil {
				return err
			}
			locks[i] = map[string]*lock.PriorityLock{scope: l}
		}
		g, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "bench"}})
		if err != nil {
			return err
		}
		work()
		return g.Release(ctx)
	}
}

func client(t testing.TB, server string, change ...func(*lock.Config)) *lock.Client {
	cfg := lock.Config{Servers: []string{server}, SessionTimeout: 10 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := lock.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		require.NoError(t, c.Close(ctx))
	})
	require.NoError(t, c.Ready(context.Background()))
	return c
}

// onServers runs f on ZooKeeper with its log in memory, and on disk with every
// write synced.
func onServers(b *testing.B, f func(b *testing.B, server string)) {
	for _, at := range []struct {
		name string
		opts []zkserver.Option
	}{
		{"tmpfs", nil},
		{"disk", []zkserver.Option{zkserver.WithFsync()}},
	} {
		b.Run(at.name, func(b *testing.B) {
			opts := append(at.opts, zkserver.WithOptimisingCompiler(), zkserver.WithTick(2*time.Second), zkserver.WithHeap(1024))
			server := zkserver.Start(b, opts...).Addr()
			warm(b, server)
			f(b, server)
		})
	}
}

func report(b *testing.B, medians map[string]float64, against ...string) {
	for _, name := range []string{raw.name, bare.name, peer.name, product.name} {
		if rate, ok := medians[name]; ok {
			b.ReportMetric(rate, name+"/s")
		}
	}
	for _, name := range against {
		b.ReportMetric(medians[product.name]/medians[name], "x_"+name)
	}
	b.ReportMetric(0, "ns/op")
}
