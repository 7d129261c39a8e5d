package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/resource"
)

// settings come from the suite, as JSON in the environment.
type settings struct {
	Client  string        // the process, as the history calls it
	Servers []string      // through which it reaches ZooKeeper
	Dir     string        // of histories and resources
	Session time.Duration // the session timeout to ask for
	Margin  time.Duration // how long before the end of the session holds end
	Seed    uint64
	Players int           // goroutines that take locks
	Scopes  int           // for which they contend
	Readers int           // percentage of requests that are shared
	Calm    int           // percentage that no other outranks, with a long lease
	Season  time.Duration // how long the names of scopes last
	Stall   time.Duration // for how long the process must not run to count as stalled
	Tempo   float64       // 1: as fast as is good for a laptop; 2: half as fast
}

func fromEnvironment() (s settings, err error) {
	text := os.Getenv("LOCKKEEPER_ROBUST")
	if text == "" {
		return s, errors.New("LOCKKEEPER_ROBUST is not set: this program is run by the suite in integration/robust")
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("LOCKKEEPER_ROBUST: %w", err)
	}
	return s, nil
}

// scope returns the name of the nth lock at this time. Names change with the
// seasons, in all processes at once: so the history of each is short, and never
// used locks are met again and again.
func (s settings) scope(n int) string {
	return fmt.Sprintf("robust/%d/%06d", n, history.Now()/s.Season)
}

// file is what the lock of a scope protects.
func (s settings) file(scope string) resource.File {
	return resource.File(filepath.Join(s.Dir, strings.ReplaceAll(scope, "/", "-")+".resource"))
}
