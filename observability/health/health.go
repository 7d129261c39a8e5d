package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Check is one thing that has to be right for a process to be ready.
type Check struct {
	// Name is what scripts know it by, in snake_case.
	Name string

	// Warns: what it finds is said, and the process is ready all the same.
	Warns bool

	// Ask returns what is wrong, for people; nil: nothing. It must not wait, and is
	// called from any goroutine.
	Ask func() error
}

// A Readiness is what Ready answers.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []Reason `json:"reasons"` // why it is not, in the order of the checks; never null

	// Warnings are what checks that only warn have found.
	Warnings []Reason `json:"warnings,omitempty"`
}

// A Reason is a Check that found something wrong.
type Reason struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
}

// Alive answers with status 200 and what status returns, as JSON.
func Alive(status func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, status()) })
}

// Ready answers with a Readiness: status 200 when all checks find nothing wrong,
// else 503.
func Ready(checks ...Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r, status := Look(checks...), http.StatusOK
		if !r.Ready {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, r)
	})
}

// Look asks all checks.
func Look(checks ...Check) Readiness {
	r := Readiness{Ready: true, Reasons: []Reason{}}
	for _, c := range checks {
		err := c.Ask()
		switch {
		case err == nil:
		case c.Warns:
			r.Warnings = append(r.Warnings, Reason{Check: c.Name, Reason: err.Error()})
		default:
			r.Ready = false
			r.Reasons = append(r.Reasons, Reason{Check: c.Name, Reason: err.Error()})
		}
	}
	return r
}

// Session checks that there is a session with ZooKeeper that can be used, under the
// name zookeeper while no server answers, and session while there is none.
func Session(health func() lock.Health) []Check {
	return []Check{
		{Name: "zookeeper", Ask: func() error {
			switch h := health(); {
			case h.State == zkclient.SessionSuspended:
				return suspended(h)
			case h.State == zkclient.SessionConnecting && h.Err != nil:
				return fmt.Errorf("ZooKeeper does not answer: %w", h.Err)
			}
			return nil
		}},
		{Name: "session", Ask: func() error {
			switch health().State {
			case zkclient.SessionConnecting:
				return errors.New("there is no session with ZooKeeper yet, or the last one has ended")
			case zkclient.SessionClosed:
				return errors.New("the session with ZooKeeper is closed: the process ends")
			case zkclient.SessionConnected, zkclient.SessionSuspended:
			}
			return nil
		}},
	}
}

func suspended(h lock.Health) error {
	left := "what is held is lost"
	if h.Left > 0 {
		left = fmt.Sprintf("what is held is safe for %s more", h.Left.Round(100*time.Millisecond))
	}
	if h.Err != nil {
		return fmt.Errorf("ZooKeeper does not answer, %s: %w", left, h.Err)
	}
	return fmt.Errorf("ZooKeeper does not answer, %s", left)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // to one who has hung up
}
