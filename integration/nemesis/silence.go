package nemesis

import (
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// Silence is a time in which a client gave nothing up: see Nemesis.Silences.
type Silence struct{ From, To time.Duration }

// silence watches what a client sends to all servers, and keeps the times in which it sent nothing that
// deletes a node or closes a session.
type silence struct {
	now   func() time.Duration
	least time.Duration // shorter ones are not kept

	mu   sync.Mutex // connections report side by side
	last time.Duration
	kept []Silence
}

// listen watches the requests that a proxy passes on. Its rules match none, so they act on none.
func (s *silence) listen(wire *zktest.Proxy) {
	note := func(zktest.Request) bool { s.end(); return false }
	for _, m := range []zktest.Match{
		zktest.Op(zktest.Delete, zktest.CloseSession),
		zktest.Op(zktest.Multi).Containing(zktest.Delete),
	} {
		wire.On(m.Where(note)).Delay(0)
	}
}

// end ends the silence before such a request.
func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now-s.last >= s.least {
		s.kept = append(s.kept, Silence{s.last, now})
	}
	s.last = now
}

func (s *silence) all() []Silence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append([]Silence(nil), s.kept...), Silence{s.last, s.now()})
}
