package deadlines

import (
	"regexp"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// way is the only way of one client to one server.
type way struct {
	*zktest.Proxy
	began   time.Time
	refusal *zktest.Rule // nil: it has never refused
}

func newWay(target string) (*way, error) {
	began := time.Now()
	proxy, err := zktest.NewProxy(target)
	return &way{Proxy: proxy, began: began}, err
}

// refuse lets no new connection through. Those that exist go on.
func (w *way) refuse() { w.refusal = w.On(zktest.Op(zktest.Connect)).DropRequest() }

// admit lets new connections through again.
func (w *way) admit() {
	if w.refusal != nil {
		w.refusal.Remove()
	}
}

// throughLeader are the requests that take the leader.
var throughLeader = zktest.Op(zktest.Create, zktest.Delete, zktest.SetData, zktest.Sync, zktest.Multi)

var leadersAnswer = regexp.MustCompile(`← #\d+ (create|delete|setData|sync|multi)\b`)

// lastAnswer is when the last request that takes the leader was answered; the zero value: none was.
func (w *way) lastAnswer() (last time.Time) {
	for _, e := range w.Trace() {
		if leadersAnswer.MatchString(e.String()) {
			last = w.began.Add(e.At)
		}
	}
	return last
}
