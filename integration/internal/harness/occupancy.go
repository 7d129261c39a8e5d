package harness

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Occupancy is what a lock protects: it notices when more hold at once than may, and tokens that do not grow. Its zero
// value admits one at a time.
type Occupancy struct {
	Limit int // how many may be inside; 0 is 1

	mu      sync.Mutex
	inside  []string
	visits  int
	crowd   []string // the first that was too large
	highest lock.Token
	stale   []lock.Token
}

// Enter notes that who holds. Token 0 is one that was not asked for.
func (o *Occupancy) Enter(who string, token lock.Token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inside = append(o.inside, who)
	o.visits++
	if len(o.inside) > max(o.Limit, 1) && o.crowd == nil {
		o.crowd = slices.Clone(o.inside)
	}
	if token == 0 {
		return
	}
	if token <= o.highest {
		o.stale = append(o.stale, token)
	}
	o.highest = max(o.highest, token)
}

// Leave notes that who holds no longer. It must be called before the release.
func (o *Occupancy) Leave(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.inside, who); i >= 0 {
		o.inside = slices.Delete(o.inside, i, i+1)
	}
}

// WasExclusive checks that never too many were inside, that each token was greater than those before, that none is
// inside now, and how often somebody entered.
func (o *Occupancy) WasExclusive(t testing.TB, visits int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	require.Empty(t, o.crowd, "too many were inside at once")
	require.Empty(t, o.stale, "tokens that are not greater than those before")
	require.Empty(t, o.inside, "still inside")
	require.Equal(t, visits, o.visits)
}
