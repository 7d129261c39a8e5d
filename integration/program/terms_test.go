package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A badTerm is a term that can never work, as each way to ask for a lock has it; "": that way has no such term.
type badTerm struct {
	says string // after the place

	terms *priority.Terms // in Go, and in what Temporal is given
	yaml  string          // of a lock of a job
	flags string          // of exec
	api   string          // members of an override
}

var badTerms = map[string]badTerm{
	"priority: below the lowest": {
		says:  "priority -5 is below the lowest; write a number from 0 (default, lowest) to 2147483646",
		terms: &priority.Terms{Priority: -5}, yaml: "priority: -5", flags: "--priority=-5", api: `"kind":"boost","forceful":true,"priority":-5`,
	},
	"priority: emergency": {
		says:  "priority 2147483647 is the emergency level, reserved for operators' overrides; write 2147483646 or less, and let an operator override in an emergency",
		terms: &priority.Terms{Priority: priority.Emergency}, yaml: "priority: 2147483647", flags: "--priority=2147483647",
	},
	"priority: above the highest": {
		says: "priority 2147483648 is above the highest; write a number from 0 to 2147483646",
		yaml: "priority: 2147483648", flags: "--priority=2147483648", api: `"kind":"boost","forceful":true,"priority":2147483648`,
	},
	"mode: a number": {
		says:  "Mode(9) is unknown; write exclusive or shared",
		terms: &priority.Terms{Mode: 9},
	},
	"mode: a word": {
		says: `"both" is unknown; write exclusive or shared`,
		yaml: "mode: both", flags: "--mode=both",
	},
	"lease_timeout: negative": {
		says:  "-10m is negative; write how long the work needs, or leave it out",
		terms: &priority.Terms{LeaseTimeout: -10 * time.Minute}, yaml: "lease_timeout: -10m", flags: "--lease=-10m", api: `"kind":"extend","lease":"-10m"`,
	},
	"lease_timeout: too short": {
		says:  "10µs is too short; write 1ms or more",
		terms: &priority.Terms{LeaseTimeout: 10 * time.Microsecond}, yaml: "lease_timeout: 10us", flags: "--lease=10us --cleanup=0", api: `"kind":"extend","lease":"10us"`,
	},
	"cleanup_timeout: negative": {
		says:  "-1m is negative; write how long the cleanup needs, or leave it out",
		terms: &priority.Terms{CleanupTimeout: -time.Minute}, yaml: "cleanup_timeout: -1m", flags: "--cleanup=-1m", api: `"kind":"extend","cleanup":"-1m"`,
	},
	"cleanup_timeout: too short": {
		says:  "10µs is too short; write 1ms or more",
		terms: &priority.Terms{CleanupTimeout: 10 * time.Microsecond}, yaml: "cleanup_timeout: 10us", flags: "--cleanup=10us", api: `"kind":"extend","cleanup":"10us"`,
	},
	"cleanup_timeout: as long as the lease": {
		says:  "cleanup_timeout (1m) must be shorter than lease_timeout (1m); shorten the one or lengthen the other",
		terms: &priority.Terms{LeaseTimeout: time.Minute, CleanupTimeout: time.Minute}, yaml: "lease_timeout: 1m, cleanup_timeout: 1m", flags: "--lease=1m --cleanup=1m",
	},
	"waiting_timeout: negative": {
		says:  "-1s is negative; write 0 to wait for no cleanup, or leave it out",
		terms: &priority.Terms{WaitingTimeout: new(-time.Second)}, yaml: "waiting_timeout: -1s", flags: "--waiting=-1s", api: `"kind":"boost","priority":7,"waiting":"-1s"`,
	},
	"waiting_timeout: too short": {
		says:  "10µs is too short; write 1ms or more",
		terms: &priority.Terms{WaitingTimeout: new(10 * time.Microsecond)}, yaml: "waiting_timeout: 10us", flags: "--waiting=10us", api: `"kind":"boost","priority":7,"waiting":"10us"`,
	},
	"acquire_timeout: negative": {
		says:  "-1s is negative; write 0 to try once, or leave it out",
		terms: &priority.Terms{AcquireTimeout: new(-time.Second)}, yaml: "acquire_timeout: -1s", flags: "--acquire=-1s", api: `"kind":"extend","acquire":"-1s"`,
	},
	"min_runtime: negative": {
		says:  "-1s is negative; write how long the work is not to be preempted, or leave it out",
		terms: &priority.Terms{MinRuntime: -time.Second}, yaml: "min_runtime: -1s",
	},
	"min_runtime: too short": {
		says:  "10µs is too short; write 1ms or more",
		terms: &priority.Terms{MinRuntime: 10 * time.Microsecond}, yaml: "min_runtime: 10us",
	},
	"min_runtime: longer than the lease": {
		says:  "min_runtime (2m) is longer than lease_timeout (1m); shorten the one or lengthen the other",
		terms: &priority.Terms{LeaseTimeout: time.Minute, MinRuntime: 2 * time.Minute}, yaml: "lease_timeout: 1m, min_runtime: 2m",
	},
	"lock_delay: negative": {
		says:  "-1s is negative; write how long work that was cut off may still do harm, or leave it out",
		terms: &priority.Terms{LockDelay: -time.Second}, yaml: "lock_delay: -1s", flags: "--lock-delay=-1s",
	},
	"lock_delay: too short": {
		says:  "10µs is too short; write 1ms or more",
		terms: &priority.Terms{LockDelay: 10 * time.Microsecond}, yaml: "lock_delay: 10us", flags: "--lock-delay=10us",
	},
	"lock_delay: too long": {
		says:  "11m is longer than 10m; write how long work that was cut off may still do harm",
		terms: &priority.Terms{LockDelay: 11 * time.Minute}, yaml: "lock_delay: 11m", flags: "--lock-delay=11m",
	},
	"preempt_delta: negative": { // in a file it belongs to all locks, see below
		says:  "-1 is negative; write 1 for any higher priority, or leave it out",
		terms: &priority.Terms{PreemptDelta: -1}, yaml: "preempt_delta: -1",
	},
	"preempt_delta: never preempts": {
		says:  "has no meaning for a request that never preempts; leave one of them out",
		terms: &priority.Terms{PreemptDelta: 3, NeverPreempts: true},
	},
}

// A bad term gets the same error in every kind of request for a lock.
func TestBadTermIsRefusedInTheSameWordsInEveryWay(t *testing.T) {
	t.Parallel()
	api := termsAPI(t)
	for name, bad := range badTerms {
		field, _, _ := strings.Cut(name, ":")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if bad.terms != nil {
				asked := lockguard.Requirement{Scope: "s", Owner: "o", Terms: *bad.terms}
				require.Equal(t, "lockkeeper: "+field+": "+bad.says, asked.Validate().Error(), "Go")
				require.Equal(t, "lockkeeper: "+field+": "+bad.says, temporal.Lock{Requirement: asked}.Validate().Error(), "Temporal")
			}
			if bad.yaml != "" {
				place, says := termsInFile(t, bad.yaml)
				require.Equal(t, bad.says, says, "YAML")
				require.Contains(t, []string{"jobs[a].locks[0]." + field, "priorities." + field}, place)
			}
			if bad.flags != "" {
				require.Equal(t, bad.says, termsInFlags(t, bad.flags), "exec")
			}
			if bad.api != "" {
				require.Equal(t, map[string]string{strings.TrimSuffix(field, "_timeout"): bad.says}, api(t, bad.api), "API")
			}
		})
	}
}

// termsInFile returns the one problem of a file, and the key that it is about.
func termsInFile(t *testing.T, terms string) (place, says string) {
	text := "version: 1\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: s, " + terms + "}]}}\n"
	if strings.HasPrefix(terms, "preempt_delta") {
		text = "version: 1\npriorities: {" + terms + "}\njobs: {a: {schedule: '@daily', run: [x]}}\n"
	}
	_, err := config.Parse("lockkeeper.yaml", []byte(text), config.Options{})
	refused, ok := errors.AsType[*config.Errors](err)
	require.True(t, ok, "%v", err)
	require.Len(t, refused.Problems, 1, "%v", err)
	p := refused.Problems[0]
	require.Positive(t, p.Line)
	require.Positive(t, p.Column)
	return p.Path, strings.TrimPrefix(p.What+"; "+p.Instead, "; ")
}

// termsInFlags returns what exec says of its flags. It spells fields as flags.
func termsInFlags(t *testing.T, flags string) string {
	args := append([]string{"exec", "--scope=s", "--zk=127.0.0.1:1"}, strings.Fields(flags)...)
	var said bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(binaries, "lockkeeper"), append(args, "--", "true")...)
	c.Stderr = &said
	require.Error(t, c.Run())
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	require.Len(t, lines, 2, said.String()) // and where to read on
	_, says, _ := strings.Cut(strings.TrimPrefix(lines[0], "lockkeeper: "), ": ")
	return strings.NewReplacer("--lease", "lease_timeout", "--cleanup", "cleanup_timeout").Replace(says)
}

// termsAPI returns what asks the API of a console for an override with some members, and returns what it says
// of which field.
func termsAPI(t *testing.T) func(t *testing.T, members string) map[string]string {
	type noOperator struct{ console.Operator } // nothing gets as far as that
	type nothing struct{ console.Board }
	c, err := console.New(console.Options{
		Board: nothing{}, Operator: noOperator{},
		Proxy: &console.Proxy{Header: "X-User", Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	handler := c.Handler()
	return func(t *testing.T, members string) map[string]string {
		body := `{"reason":"r","id":"x","for":"1h","scope":"s",` + members + `}`
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/api/v1/overrides", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var answer struct {
			Problems []struct{ Field, Detail string }
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
		said := map[string]string{}
		for _, p := range answer.Problems {
			said[p.Field] = p.Detail
		}
		return said
	}
}
