package temporaltesting

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// The states of a hold that a workflow is notified of, and the last one.
const (
	toldGranted    = "granted"
	toldPreempting = "preempting"
	toldRegranted  = "regranted"
)

// A keeper is what keeps the lock of one WithLock, as a test environment sees it.
type keeper struct {
	name  string // of its signals
	scope string
	task  []byte // the token of its activity

	polite bool           // it preempts no holder for its priority
	delta  priority.Level // by which that has to be higher

	told   string          // last; "": nothing
	token  lockguard.Token // of what it was told
	hold   string          // the id, once it is known
	over   bool            // it has ended, or is to
	cancel bool            // Temporal says so at its next heartbeat
}

// isOf reports whether a request is that of the hold, or of a member of it.
func (k *keeper) isOf(about lockguard.Subject) bool {
	if k.hold != "" {
		return about.Hold == k.hold
	}
	return strings.HasSuffix(about.Hold, "/"+k.name)
}
