package replay

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A tap sees what is asked of ZooKeeper, in the order in which it arrives there.
type tap struct {
	mu        sync.Mutex
	owners    map[string]int64 // sessions of contenders, by guid
	announced map[string]int   // how many announcements name a contender as the victim
	evictions []eviction
}

// An eviction is a transaction that removes another session's contender. It may
// have failed.
type eviction struct {
	guid      string
	announced bool // before
}

func newTap(t *testing.T, zk *zktest.Server) *tap {
	p := &tap{owners: make(map[string]int64), announced: make(map[string]int)}
	referee := virtual.NewReferee(zk, "/lockkeeper", t.Errorf)
	rule := zk.On(zktest.Any().Where(func(r zktest.Request) bool {
		referee.Look()
		p.see(r)
		return false
	})).Delay(0)
	t.Cleanup(rule.Remove)
	return p
}

func (p *tap) see(r zktest.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ops := r.Ops
	if len(ops) == 0 {
		ops = []zktest.Request{r}
	}
	for _, op := range ops {
		switch {
		case strings.HasPrefix(op.Path, "/lockkeeper/audit/log/") && isCreate(op):
			var record opstore.AuditRecord
			if json.Unmarshal(op.Data, &record) == nil && record.Phase == opstore.AuditIntent {
				for _, victim := range record.Victims {
					p.announced[victim.ID]++
				}
			}
		case isCreate(op) && virtual.GUID(op.Path) != "":
			p.owners[virtual.GUID(op.Path)] = r.Session
		case op.Op == zktest.Delete && virtual.GUID(op.Path) != "" && p.owners[virtual.GUID(op.Path)] != r.Session:
			p.evictions = append(p.evictions, eviction{virtual.GUID(op.Path), p.announced[virtual.GUID(op.Path)] > 0})
		}
	}
}

func isCreate(op zktest.Request) bool { return op.Op == zktest.Create }
