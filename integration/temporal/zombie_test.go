package temporal_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// The worker that is stopped (SIGSTOP) does nothing for so long that Temporal has
// given the attempt up, and then goes on (SIGCONT) as if nothing had happened.
func TestLateWriteOfAWorkerThatWasStoppedIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		session time.Duration
		causes  []string
	}{
		"for longer than its session":           {2 * time.Second, []string{"lost", "superseded"}},
		"for longer than the heartbeat timeout": {40 * time.Second, []string{"superseded"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, d := newFarm(t), newDownstream(t)
			proxy := netfault.New(t, temporals.Server(t).Addr())
			zombie := f.process(t, d, "zombie", func(p *post) { p.Session, p.Temporal = c.session, proxy.Addr() })
			run := f.start(t, "linger", briskly())
			first := d.awaits(t, "write")

			// given an attempt that was given up while its worker was stopped, which has
			// also been sent the next one
			zombie.signal(t, syscall.SIGSTOP)
			f.attempts(t, run, 2)
			f.workerOn(t, f.guard(t), lingering(temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyWait}), laborer{newMouth(d, "other")}.register)
			if c.session > patience { // it still holds the lock
				f.waits(t)
			} else {
				d.awaits(t, "write", by("other"))
			}

			// when the worker goes on, and what Temporal says takes longer than a lock
			require.NoError(t, proxy.Delay(300*time.Millisecond))
			zombie.signal(t, syscall.SIGCONT)

			// then it is told, an attempt elsewhere has the lock, what the first one writes
			// is refused, and the one that comes too late does not begin
			require.Contains(t, c.causes, d.awaits(t, "told").Cause)
			token, err := result[lockguard.Token](t, run)
			require.NoError(t, err)
			require.Greater(t, token, first.Token)
			d.open("late")
			refused := d.awaits(t, "write", func(w word) bool { return w.Refused })
			require.Equal(t, "zombie", refused.Worker)
			require.Equal(t, first.Token, refused.Token)
			for _, w := range d.said("write") {
				require.Equal(t, w.Worker == "zombie" && w != first, w.Refused, "%+v", w)
			}
		})
	}
}
