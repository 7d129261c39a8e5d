package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A pair is two ensembles of a file: the scopes below far are on the second one. Each
// has a lock that is held and waited for.
type pair struct {
	near, far *zktest.Server
	clients   map[*zktest.Server]*lock.Client
	file      string
	dir       string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{near: zktest.RunT(t), far: zktest.RunT(t), clients: map[*zktest.Server]*lock.Client{}, dir: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "ana"), []byte("ana:secret"), 0o600))
	p.file = p.fileOf(t, p.near.Addr(), p.far.Addr())
	for _, server := range []*zktest.Server{p.near, p.far} {
		p.clients[server] = connect(t, server, ana)
	}
	p.contend(t, p.near, "near/orders", "near-batch", "near-next")
	p.contend(t, p.far, "far/orders", "far-batch", "far-next")
	return p
}

// fileOf writes a configuration.
func (p *pair) fileOf(t *testing.T, near, far string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "lockkeeper.yaml")
	text := fmt.Sprintf(`version: 1
zookeeper:
  servers: %s
  ensembles:
    europe: {servers: %s, prefixes: [far]}
jobs:
  far-next: {schedule: manual, run: [x], locks: [{scope: far/orders, priority: 5}]}
`, near, far)
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// contend has a lock held by one and waited for by another.
func (p *pair) contend(t *testing.T, server *zktest.Server, scope, holder, waiter string) {
	t.Helper()
	acquire(t, p.clients[server], scope, lock.Request{Identity: priority.Identity{Owner: holder}, Terms: priority.Terms{LeaseTimeout: time.Hour}})
	enqueue(t, p.clients[server], scope, lock.Request{Identity: priority.Identity{Owner: waiter}, Terms: priority.Terms{LeaseTimeout: time.Hour}})
}

// with runs the program as ana, with a file.
func (p *pair) with(file string, args ...string) (code int, stdout, stderr string) {
	return runProgram(append(args, "-f", file, "--zk-digest-file", filepath.Join(p.dir, "ana"))...)
}

// shows runs the program, which has to succeed, and returns what it writes.
func (p *pair) shows(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := p.with(p.file, args...)
	require.Zero(t, code, errs)
	return out
}

// objects reads JSON.
func objects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &all), text)
	return all
}

func object(t *testing.T, text string) (one map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &one), text)
	return one
}

func TestListsShowTheLocksOfAllEnsembles(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, command := range [][]string{{"locks", "ls"}, {"locks", "ls", "-o", "wide"}, {"top", "--once"}} {
		out := p.shows(t, command...)
		require.Regexp(t, `(?m)^SCOPE +ENSEMBLE +STATE`, out)
		require.Regexp(t, `(?m)^far/orders +europe +held +far-batch`, out)
		require.Regexp(t, `(?m)^near/orders +home +held +near-batch`, out)
	}
	require.Contains(t, p.shows(t, "locks", "ls"), "home: ZooKeeper "+p.near.Addr()+", root /lockkeeper\neurope: ZooKeeper "+p.far.Addr()+", root /lockkeeper\n")
	for _, command := range []string{"locks ls", "top"} {
		all := objects(t, p.shows(t, append(strings.Fields(command), "-o", "json")...))
		require.Len(t, all, 2)
		require.Equal(t, []any{"far/orders", "europe", "near/orders", "home"}, []any{all[0]["scope"], all[0]["ensemble"], all[1]["scope"], all[1]["ensemble"]})
	}
}

func TestNothingNamesTheEnsembleOfAFileWithOne(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	require.NoError(t, os.WriteFile(p.file, []byte("version: 1\nzookeeper: {servers: "+p.near.Addr()+"}\njobs:\n  tidy: {schedule: manual, run: [x]}\n"), 0o600))
	for _, command := range []string{"locks ls", "locks show near/orders", "locks why near/orders", "locks why near-next", "top --once", "gc"} {
		for _, format := range []string{"table", "json"} {
			out := p.shows(t, append(strings.Fields(command), "-o", format)...)
			require.NotContains(t, strings.ToLower(out), "ensemble", command)
			require.NotContains(t, out, "home", command)
		}
	}
	require.Regexp(t, `^ZooKeeper [^\n]+, root /lockkeeper\nSCOPE +STATE +HOLDER`, p.shows(t, "locks", "ls"))
}

func TestOtherEnsemblesAreShownWhenOneDoesNotAnswer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	const silent = "localhost:1"
	one, none := p.fileOf(t, p.near.Addr(), silent), p.fileOf(t, "localhost:2", silent)
	const (
		unanswered = "lockkeeper: ensemble europe: ZooKeeper at " + silent + " does not answer"
		missing    = "lockkeeper: not all is shown: ensemble europe: ZooKeeper at " + silent + " does not answer"
		nearHeld   = `(?m)^near/orders +home +held`
	)
	for _, c := range []struct {
		file, command string
		code          int
		out           []string // patterns; none: nothing is written
		errs          []string
	}{
		{one, "locks ls", exitNotAcquired, []string{nearHeld}, []string{missing}},
		{one, "top --once", exitNotAcquired, []string{nearHeld}, []string{missing}},
		{one, "locks ls -o json", exitNotAcquired, []string{`"scope": "near/orders"`}, []string{missing}},
		{one, "locks why near-next", exitNotAcquired, []string{
			"waits     for near/orders on the ensemble home as number 1", "unknown   ensemble europe: ZooKeeper at " + silent + " does not answer",
		}, []string{missing}},
		// A lock that is on another one is shown whole.
		{one, "locks show near/orders", 0, []string{"near/orders: held"}, nil},
		{one, "locks why near/orders", 0, []string{"near-batch"}, nil},
		// A lock that would be there is not free.
		{one, "locks show far/orders", exitNotAcquired, nil, []string{unanswered}},
		{one, "locks why far/orders", exitNotAcquired, nil, []string{unanswered}},
		{one, "locks timeline far/orders", exitNotAcquired, nil, []string{unanswered}},
		{one, "locks break far/orders --token 1 -r test", exitNotAcquired, nil, []string{unanswered}},
		// When none answers, each is named.
		{none, "locks ls", exitNotAcquired, nil, []string{"lockkeeper: ensemble home: ZooKeeper at localhost:2 does not answer", unanswered}},
	} {
		t.Run(c.command+" "+filepath.Base(filepath.Dir(c.file)), func(t *testing.T) {
			t.Parallel() // each waits for those that do not answer
			code, out, errs := p.with(c.file, strings.Fields(c.command)...)
			require.Equal(t, c.code, code, errs)
			require.Equal(t, len(c.out) == 0, out == "", out)
			for _, want := range c.out {
				require.Regexp(t, want, out)
			}
			for _, want := range c.errs {
				require.Contains(t, errs, want)
			}
		})
	}
}

func TestLockIsLookedAtOnItsEnsemble(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	require.Contains(t, p.shows(t, "locks", "show", "far/orders"), "far/orders: held, exclusive, 1 waiting; on the ensemble europe\n")
	require.Equal(t, "europe", object(t, p.shows(t, "locks", "show", "far/orders", "-o", "json"))["ensemble"])

	out := p.shows(t, "locks", "why", "far/orders")
	require.Contains(t, out, "europe: ZooKeeper "+p.far.Addr()+", root /lockkeeper\n")
	require.Contains(t, out, "far-batch")
	require.NotContains(t, out, p.near.Addr())
	require.Equal(t, "europe", object(t, p.shows(t, "locks", "why", "far/orders", "-o", "json"))["ensemble"])

	require.Contains(t, p.shows(t, "locks", "why", "far-next"), "waits     for far/orders on the ensemble europe as number 1")
	requests, ok := object(t, p.shows(t, "locks", "why", "far-next", "-o", "json"))["requests"].([]any)
	require.True(t, ok)
	require.Len(t, requests, 1)
	require.Equal(t, "europe", requests[0].(map[string]any)["ensemble"])

	out = p.shows(t, "locks", "why", "--if-run", "far-next")
	require.Contains(t, out, "far/orders on the ensemble europe: ")
	require.Contains(t, out, "held by far-batch")

	require.Contains(t, p.shows(t, "locks", "timeline", "far/orders", "--for", "0s", "-o", "json"), `"far-batch"`)
}

func TestTimelineOfALockIsThatOfItsEnsemble(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.contend(t, p.near, "far/orders", "stray", "stray-next") // by somebody who does not know the file
	require.NotContains(t, p.shows(t, "locks", "timeline", "far/orders", "--for", "0s", "-o", "json"), `"stray"`)
	require.NotContains(t, p.shows(t, "locks", "why", "far/orders"), "stray")

	// and the list shows both
	out := p.shows(t, "locks", "ls")
	require.Regexp(t, `(?m)^far/orders +home +held +stray`, out)
	require.Regexp(t, `(?m)^far/orders +europe +held +far-batch`, out)
}

func TestLockIsTakenAwayOnItsEnsembleAndThatIsOnRecordAtHome(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"break", "preempt"} {
		t.Run(command, func(t *testing.T) {
			p := newPair(t)
			state, err := p.clients[p.far].Lock(t.Context(), "far/orders")
			require.NoError(t, err)
			args := []string{"locks", command, "far/orders", "--token", state.Holders[0].Token.String(), "--reason", "test", "-o", "json"}
			if command == "preempt" {
				args = append(args, "--force")
			}

			// when
			out := p.shows(t, args...)

			// then
			now, ok := object(t, out)["now"].(map[string]any)
			require.True(t, ok)
			require.Equal(t, "europe", now["ensemble"])
			state, err = p.clients[p.far].Lock(t.Context(), "far/orders")
			require.NoError(t, err)
			require.NotContains(t, owners(state.Holders), "far-batch")
			for server, n := range map[*zktest.Server]bool{p.near: true, p.far: false} {
				log, err := p.clients[server].AuditLog(0)
				require.NoError(t, err)
				all, _, err := log.Read(t.Context(), opstore.AuditQuery{})
				require.NoError(t, err)
				require.Equal(t, n, len(all) > 0)
			}
		})
	}
}

func TestIdleScopesAreRemovedOnAllEnsembles(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	out := p.shows(t, "gc")
	require.Contains(t, out, "removed 0 of 2 scopes")
	require.Regexp(t, `(?m)^left +far/orders +europe +\S+ ago +held, or waited for$`, out)
	require.Regexp(t, `(?m)^left +near/orders +home +\S+ ago +held, or waited for$`, out)
	left, ok := object(t, p.shows(t, "gc", "-o", "json"))["left"].([]any)
	require.True(t, ok)
	require.Len(t, left, 2)
	require.Equal(t, "europe", left[0].(map[string]any)["ensemble"])

	// when one does not answer
	p.file = p.fileOf(t, p.near.Addr(), "localhost:1")
	code, out, errs := p.with(p.file, "gc")
	require.Equal(t, exitNotAcquired, code)
	require.Contains(t, out, "removed 0 of 1 scope:")
	require.Contains(t, errs, "lockkeeper: not all is done: ensemble europe: ZooKeeper at localhost:1 does not answer")
}

func TestHomeHasAnotherNameWhereAnEnsembleIsCalledThat(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	text, err := os.ReadFile(p.file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.file, bytes.ReplaceAll(text, []byte("europe:"), []byte("home:")), 0o600))
	out := p.shows(t, "locks", "ls")
	require.Regexp(t, `(?m)^far/orders +home +held`, out)
	require.Regexp(t, `(?m)^near/orders +zookeeper.servers +held`, out)
}

func TestTopWatchesAllEnsembles(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := sit(t, 120, 24, nil, "top", "-f", p.file, "--zk-digest-file", filepath.Join(p.dir, "ana"))
	s.shows(t, "ENSEMBLE", "far/orders", "europe", "far-batch", "near/orders", "home", "near-batch", "2 locks · 2 held · 2 waiting")

	// when a lock is opened, then its history is that of its ensemble
	s.press(t, "/far/\r\r")
	s.shows(t, "on the ensemble europe", "HELD BY", "far-batch", "TIMELINE")
	s.press(t, "\x1b\x1b")

	// when one does not answer, then it is named, and the others go on
	require.NoError(t, p.far.Close())
	s.shows(t, "BLIND since", "ensemble europe: ")
	acquire(t, p.clients[p.near], "near/new", lock.Request{Identity: priority.Identity{Owner: "newcomer"}})
	s.shows(t, "near/new", "newcomer", "far/orders")
	s.press(t, "q")
	s.leaves(t, 0)
}

func TestJobsAndOverridesAreToldOfTheLocksOfTheirEnsembles(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	require.Contains(t, p.shows(t, "jobs", "run", "far-next", "--dry-run"), "held by far-batch")
	require.Contains(t, p.shows(t, "config", "explain", "far-next"), "held by far-batch")

	apply := func() (code int, stdout, stderr string) {
		return runProgram("override", "apply", "INC", "--kind", "freeze", "--scope", "far/*", "--for", "5m", "-r", "test", "--dry-run",
			"--config", p.file, "--zk-digest-file", filepath.Join(p.dir, "ana"))
	}
	code, out, errs := apply()
	require.Zero(t, code, errs)
	require.Regexp(t, `waiter +far/orders +far-next .*leaves the queue`, out)

	// when that ensemble does not answer, then it is named, and is no reason to do nothing
	p.file = p.fileOf(t, p.near.Addr(), "localhost:1")
	code, _, errs = apply()
	require.Zero(t, code, errs)
	require.Contains(t, errs, "lockkeeper: unreadable: ensemble europe: ZooKeeper at localhost:1 does not answer")
}

func TestRunIsShownAsWaitingForALockOfAnotherEnsemble(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	cfg, err := config.Load(p.file, config.Options{})
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	alive := ticks.State{Job: "far-next", Runs: []ticks.Run{{Alive: true, Host: host, PID: os.Getpid()}}}
	all := ensemblesOf(cfg, lock.Config{Servers: cfg.Client.Servers, Root: "/lockkeeper", Auth: ana})
	program := &program{stderr: io.Discard}
	require.NoError(t, program.withEnsembles(t.Context(), all, func(ctx context.Context, all ensembles) error {
		requests, err := requestsOf(ctx, all, alive)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(requests, func(r live.Request) bool {
			return r.Owner == "far-next" && r.State == live.Waiting && r.Scope == "far/orders"
		}))
		return nil
	}))
}
