package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// password is that of ana, who may act.
const password = "hunter2 and more"

// configuration is that of the program in a town.
const configuration = `version: 1
console: {listen: "127.0.0.1:0", actions: true, users_file: users}
jobs: {knead: {schedule: manual, run: ["true"]}}
`

// A town has locks in ZooKeeper, and the program, whose console shows them.
type town struct {
	*testing.T
	client *lock.Client
	trail  *opstore.AuditLog
	url    string // of the console
}

func newTown(t *testing.T) *town {
	t.Helper()
	server, root, dir := shared.Server(t).Addr(), testbed.Root(t), t.TempDir()
	w := &town{T: t, client: harness.NewClient(t, lock.Config{
		Servers: []string{server}, Root: root, SessionTimeout: 30 * time.Second, Auth: &lock.Digest{User: "daemon", Password: "secret"},
	})}
	require.NoError(t, w.client.Ready(t.Context()))
	var err error
	w.trail, err = w.client.AuditLog(0)
	require.NoError(t, err)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	for name, text := range map[string]string{"credentials": "daemon:secret", "users": fmt.Sprintf("ana:%s\n", hash), "lockkeeper.yaml": configuration} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := exec.Command(program, "run", "-f", "lockkeeper.yaml", "--zk", server, "--root", root, "--zk-digest-file", "credentials")
	run.Dir = dir
	_, address, _ := strings.Cut(harness.StartDaemon(t, run).Await(t, "the console is served", "address="), "address=")
	w.url = "http://" + strings.Fields(address)[0]
	return w
}

// serve shows a console to browsers, and returns where it is.
func serve(t *testing.T, o console.Options) string {
	t.Helper()
	c, err := console.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	return server.URL
}

// A resident has asked for a lock.
type resident struct {
	*harness.Running
	w    *town
	name string
	held chan *lockguard.Hold
	hold *lockguard.Hold // that it has, as holds found
}

// request asks for a lock in the background, by a guard with that owner.
func (w *town) request(owner string, r lockguard.Requirement) *resident {
	w.Helper()
	guard, err := lockguard.New(w.client, lockguard.WithOwner(owner))
	require.NoError(w, err)
	if r.LeaseTimeout == 0 {
		r.LeaseTimeout = time.Hour
	}
	one := &resident{w: w, name: owner, held: make(chan *lockguard.Hold, 1)}
	one.Running = harness.Run(w, owner, func(ctx context.Context) error {
		return guard.Do(ctx, r, func(ctx context.Context) error {
			hold, ok := lockguard.FromContext(ctx)
			if !ok {
				return errors.New("work without a hold")
			}
			one.held <- hold
			<-ctx.Done()
			return context.Cause(ctx)
		}, hooks(ctx, r)...)
	})
	return one
}

// newHarbour is a town whose crane is held, as the console knows.
func newHarbour(t *testing.T, r lockguard.Requirement) (w *town, scope string, holder *resident) {
	t.Helper()
	w = newTown(t)
	r.Scope = "town/harbour/crane"
	holder = w.request("crane-driver", r)
	holder.holds()
	w.waits(r.Scope, 0)
	return w, r.Scope, holder
}

// hooks take all the time that they have: a preempted holder is seen cleaning up.
// They end with caller.
func hooks(caller context.Context, r lockguard.Requirement) []lockguard.Hook {
	if r.CleanupTimeout == 0 {
		return nil
	}
	return []lockguard.Hook{func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-caller.Done():
		}
		return nil
	}}
}

// holds waits until the lock is held.
func (one *resident) holds() *lockguard.Hold {
	one.w.Helper()
	select {
	case one.hold = <-one.held:
	case <-one.Done():
		require.NoError(one.w, one.Err(), "%s does not get its lock", one.name)
	case <-time.After(harness.Patience):
		require.Fail(one.w, "no lock", "%s", one.name)
	}
	return one.hold
}

// lock waits until the console knows something about a lock.
func (w *town) lock(scope string, fits func(live.Lock) bool) live.Lock {
	w.Helper()
	var known struct{ Lock live.Lock }
	harness.Eventually(w, func() bool {
		answer, err := http.Get(w.url + "/api/v1/locks/" + scope)
		require.NoError(w, err)
		defer answer.Body.Close()
		known.Lock = live.Lock{} // what is no more is left out
		return json.NewDecoder(answer.Body).Decode(&known) == nil && fits(known.Lock)
	}, "what is looked for of lock %s is seen", scope)
	return known.Lock
}

// waits waits until so many stand in the queue of a lock.
func (w *town) waits(scope string, n int) live.Lock {
	w.Helper()
	return w.lock(scope, func(l live.Lock) bool { return len(l.Holders) > 0 && len(l.Waiters) == n })
}

// records are those of the trail.
func (w *town) records() []opstore.AuditRecord {
	w.Helper()
	all, _, err := w.trail.Read(w.Context(), opstore.AuditQuery{})
	require.NoError(w, err)
	return all
}
