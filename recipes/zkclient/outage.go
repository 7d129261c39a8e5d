package zkclient

import (
	"strings"
	"time"
)

// When an outage is reported: not at once, because a server that is restarted
// or an ensemble that elects a leader is no news; then ever more rarely.
const (
	firstWord  = time.Second
	rarestWord = time.Minute
)

// tellOutage logs that there is no connection, until ready is closed.
func (s *Session) tellOutage(ready <-chan struct{}) {
	began := s.clock.now()
	for pause := firstWord; ; pause = min(4*pause, rarestWord) {
		select {
		case <-time.After(pause):
		case <-ready:
			return
		case <-s.over:
			return
		}
		s.mu.Lock()
		err := s.lastErr
		s.mu.Unlock()
		attrs := []any{
			"servers", strings.Join(s.c.cfg.Servers, ","), "for", s.clock.now().Sub(began).Round(time.Millisecond),
		}
		if err != nil {
			attrs = append(attrs, "error", err)
		}
		s.c.log.Warn("ZooKeeper does not answer, trying on", attrs...)
	}
}
