package nemesis_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// town is an ensemble with clients behind links of their own, and one that no fault of the network concerns.
type town struct {
	*nemesis.Nemesis
	processes *processes
	clients   map[string]*client
	name      string  // of a
	a         *client // who bears the fault
	b         *client // who does not
	witness   *client
	seen      *sync.Map // numbers of the faults under way
}

func settle(t *testing.T, o nemesis.Options, names ...string) *town {
	t.Helper()
	w := &town{processes: &processes{}, clients: map[string]*client{}, seen: &sync.Map{}}
	o.Clients, o.Processes, o.Session = names, w.processes, session
	o.Observe = func(f nemesis.Fault) {
		if f.Ended == 0 {
			w.seen.Store(f.Number, true)
		} else {
			w.seen.Delete(f.Number)
		}
	}
	w.Nemesis = nemesis.Start(t, o)
	t.Log(w.Notes(), w.Unavailable())
	for _, name := range names {
		w.clients[name] = connect(t, w.Connect(name))
	}
	w.name, w.a, w.b = names[0], w.clients[names[0]], w.clients["b"]
	w.witness = connect(t, w.Direct())
	return w
}

// open counts the faults under way.
func (w *town) open() (n int) {
	w.seen.Range(func(any, any) bool { n++; return true })
	return n
}

// during plays a step for as long as check takes, and returns the fault when it is healed.
func (w *town) during(t *testing.T, step nemesis.Step, check func()) nemesis.Fault {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	step.For = time.Hour
	step.Client = cmp.Or(step.Client, w.name)
	before := w.last(step.Kind).Number
	played := make(chan error, 1)
	go func() { played <- w.Play(ctx, step) }()
	happens(t, "the fault begins", func() bool { return w.last(step.Kind).Number > before })
	check()
	cancel()
	require.ErrorIs(t, <-played, context.Canceled)
	fault := w.last(step.Kind)
	require.Empty(t, fault.Err)
	require.Greater(t, fault.Ended, fault.Began)
	t.Log(fault)
	return fault
}

// last returns the last fault of a kind.
func (w *town) last(k nemesis.Kind) (last nemesis.Fault) {
	for _, f := range w.Faults() {
		if f.Kind == k {
			last = f
		}
	}
	return last
}

// leads plays what is about a leader again when the machine is so busy that the lead has changed by itself meanwhile.
func (w *town) leads(t *testing.T, k nemesis.Kind, tell func() nemesis.Fault) {
	t.Helper()
	for range 4 {
		leader, err := w.Ensemble().Leader(t.Context())
		require.NoError(t, err)
		if slices.Contains(tell().Servers, leader.ID()) != strings.HasPrefix(string(k), "follower-") {
			return
		}
	}
	require.Fail(t, "never aimed at the leader")
}

// whole: all servers serve, and the clients can write.
func (w *town) whole(t *testing.T) {
	t.Helper()
	for _, s := range w.Ensemble().Servers() {
		require.True(t, s.Alive())
		happens(t, "it serves: a busy machine may have had another leader chosen", func() bool {
			_, err := s.Mode(t.Context())
			return err == nil
		})
	}
	for _, c := range []*client{w.a, w.b, w.witness} {
		c.serves(t)
	}
}

func (w *town) server(id int) *zkserver.Server { return w.Ensemble().Servers()[id-1] }

// there tells whether a node is there, as the witness sees it.
func (w *town) there(path string) bool {
	there, _, err := w.witness.Exists(path)
	return err != nil || there
}

// ephemeral makes a node that lives as long as the client's session.
func (w *town) ephemeral(t *testing.T, c *client) (path string) {
	t.Helper()
	happens(t, "an ephemeral node", func() bool {
		var err error
		path, err = c.Create("/e-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err == nil
	})
	w.sees(t, path)
	return path
}

// sees tells whether a node is there, once the witness knows all that was done before. A busy machine lets its
// connection break by itself: then it reads again.
func (w *town) sees(t *testing.T, path string) (there bool) {
	t.Helper()
	happens(t, "the witness looks", func() bool {
		_, err := w.witness.Sync("/")
		if err == nil {
			there, _, err = w.witness.Exists(path)
		}
		return err == nil
	})
	return there
}

var errBusy = errors.New("just being started")

func mute(c *client) func() bool { return func() bool { return c.write() != nil } }
