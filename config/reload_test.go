package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const (
	reloaded = "configuration reloaded"
	refused  = "configuration not reloaded; the one before stays in force"
	again    = "configuration is that of the file again"
	same     = "configuration has not changed"
)

// A reloading is a Reloader at work on a file.
type reloading struct {
	*Reloader
	t       *testing.T
	file    string
	applied chan Diff

	mu     sync.Mutex
	lines  []string
	ended  map[string]int // how often each of the above was logged
	change chan struct{}  // closed with the next line
	refuse error          // what apply returns
}

// reload lets a Reloader work on a file until the test ends.
func reload(t *testing.T, text string, options ...func(*ReloadConfig)) *reloading {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return reloadFile(t, file, options...)
}

func reloadFile(t *testing.T, file string, options ...func(*ReloadConfig)) *reloading {
	t.Helper()
	before := goleak.IgnoreCurrent()
	r := newReloading(t, file, options...)
	r.poll = time.Hour // what is noticed is what the directory tells
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		goleak.VerifyNone(t, before)
	})
	r.Trigger() // once it says so, it watches
	r.wait(same, 1)
	return r
}

func newReloading(t *testing.T, file string, options ...func(*ReloadConfig)) *reloading {
	t.Helper()
	current, err := Load(file, testOptions())
	require.NoError(t, err)
	r := &reloading{t: t, file: file, applied: make(chan Diff, 10_000), ended: map[string]int{}, change: make(chan struct{})}
	cfg := ReloadConfig{
		Apply: func(_ context.Context, _ *Config, diff Diff) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.refuse == nil {
				r.applied <- diff
			}
			return r.refuse
		},
		Current: current, Debounce: time.Millisecond, Logger: slog.New(r), Options: testOptions(),
	}
	for _, option := range options {
		option(&cfg)
	}
	r.Reloader, err = NewReloader(cfg)
	require.NoError(t, err)
	return r
}

// Enabled, Handle, WithAttrs and WithGroup make it the handler of the log.
func (r *reloading) Enabled(context.Context, slog.Level) bool { return true }
func (r *reloading) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *reloading) WithGroup(string) slog.Handler            { return r }
func (r *reloading) Handle(_ context.Context, record slog.Record) error {
	line := record.Message
	record.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	r.ended[record.Message]++
	close(r.change)
	r.change = make(chan struct{})
	return nil
}

// wait waits until something was logged that many times.
func (r *reloading) wait(message string, times int) {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		r.mu.Lock()
		n, change := r.ended[message], r.change
		r.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-change:
		case <-deadline:
			r.mu.Lock()
			defer r.mu.Unlock()
			require.FailNow(r.t, "not logged", "%q %d times in:\n%s", message, times, strings.Join(r.lines, "\n"))
		}
	}
}

func (r *reloading) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

// replace writes a file beside the old one and puts it in its place, as
// editors do.
func replace(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// every makes a file with one job, a, that runs every so many minutes.
func every(minutes int) string {
	return fmt.Sprintf("version: 1\njobs: {a: {schedule: '@every %dm', run: [x]}}\n", minutes)
}

func TestThousandFilesGoodAndBadInTurnLeaveTheLastGoodOneInForce(t *testing.T) {
	// given
	r := reload(t, every(1000))
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		last := 1
		for {
			r.mu.Lock()
			change := r.change
			r.mu.Unlock()
			select {
			case <-stop:
				return
			case <-change:
			}
			status, cfg := r.Status(), r.Config()
			if status.OK != (status.Err == nil) || status.Generation < last || len(cfg.Jobs) != 1 || cfg.Jobs[0].Validate() != nil {
				t.Errorf("never half: %+v %+v", status, cfg.Jobs)
				return
			}
			last = status.Generation
		}
	})

	turns := 500
	if testing.Short() {
		turns = 100
	}
	for i := range turns {
		// when
		replace(t, r.file, every(i+1))
		r.wait(reloaded, i+1)

		// then
		require.Equal(t, Status{At: r.Status().At, Generation: i + 2, OK: true}, r.Status())
		require.Equal(t, fmt.Sprintf("@every %dm", i+1), r.Config().Jobs[0].Schedule)

		// when
		replace(t, r.file, strings.Replace(every(i+2), "run", "rum", 1))
		r.wait(refused, i+1)

		// then
		status := r.Status()
		require.False(t, status.OK)
		require.Equal(t, i+2, status.Generation)
		require.ErrorContains(t, status.Err, `unknown field "rum"; did you mean "run"?`)
		require.Equal(t, fmt.Sprintf("@every %dm", i+1), r.Config().Jobs[0].Schedule)
	}
	close(stop)
	reading.Wait()
	require.Len(t, r.applied, turns)
}

func TestWholeDiffIsGivenAndLoggedJobByJob(t *testing.T) {
	r := reload(t, file("jobs:\n  gone: {schedule: '@daily', run: [x]}\n  changed: {schedule: '@daily', run: [x]}\n  same: {schedule: '@daily', run: [x]}\n"))

	replace(t, r.file, file("jobs:\n  new: {schedule: '@daily', run: [x]}\n  same: {schedule: '@daily', run: [x]}\n  changed: {schedule: '@hourly', run: [x], timeout: 1m, overlap: buffer-one}\n"))
	r.wait(reloaded, 1)

	want := Diff{
		Added: []string{"new"}, Removed: []string{"gone"},
		Changed: []JobChange{{Name: "changed", Fields: []Change{
			{Field: "schedule", From: `"@daily"`, To: `"@hourly"`}, {Field: "overlap", To: "buffer-one"}, {Field: "timeout", To: "1m"},
		}}},
	}
	require.Equal(t, want, <-r.applied)
	require.Equal(t, "- job gone\n+ job new\n~ job changed: schedule (\"@daily\" → \"@hourly\"), overlap (nothing → buffer-one), timeout (nothing → 1m)", want.String())
	require.Contains(t, r.log(), "job removed job=gone\njob added job=new\njob changed job=changed changes=schedule (\"@daily\" → \"@hourly\"), overlap (nothing → buffer-one), timeout (nothing → 1m)\n")
	require.Contains(t, r.log(), reloaded+" jobs_added=1 jobs_removed=1 jobs_changed=1")
}

func TestChangeThatNeedsARestartKeepsAllThatWas(t *testing.T) {
	r := reload(t, every(1), func(c *ReloadConfig) { c.Live = []string{"log.level", "drain"} })

	// when
	replace(t, r.file, every(2)+"log: {level: debug, format: json}\nzookeeper: {root: /other}\ndrain_timeout: 1m\nmetrics: {listen: ':1'}\nconsole: {listen: '127.0.0.1:1'}\n")
	r.wait(refused, 1)

	// then
	var restart *RestartError
	require.ErrorAs(t, r.Status().Err, &restart)
	want := []Change{
		{Field: "zookeeper.root", To: "/other"},
		{Field: "metrics.listen", To: ":1"},
		{Field: "console.listen", To: "127.0.0.1:1"},
		{Field: "log.format", From: "text", To: "json"},
	}
	require.Equal(t, want, restart.Changes)
	require.EqualError(t, restart, "zookeeper.root (nothing → /other), metrics.listen (nothing → :1), console.listen (nothing → 127.0.0.1:1), log.format (text → json) cannot change while the daemon runs, so nothing of the file is in force; restart the daemon, or take it back")
	require.Equal(t, "@every 1m", r.Config().Jobs[0].Schedule)
	require.Empty(t, r.applied)

	// when
	replace(t, r.file, every(2)+"log: {level: debug}\ndrain_timeout: 1m\npriorities: {classes: {high: 5}}\nscopes: {s: {}}\n")
	r.wait(reloaded, 1)

	// then
	require.Equal(t, []Change{
		{Field: "priorities.classes"}, {Field: "scopes"}, {Field: "drain.finish", From: "30s", To: "1m"}, {Field: "log.level", From: "info", To: "debug"},
	}, (<-r.applied).Settings)
}

func TestRefusedConfigurationIsTriedAgainWhenAsked(t *testing.T) {
	r := reload(t, every(1))
	r.setRefuse(errors.New("not now"))

	replace(t, r.file, every(2))
	r.wait(refused, 1)
	require.EqualError(t, r.Status().Err, "not now")
	require.Equal(t, "@every 1m", r.Config().Jobs[0].Schedule)

	r.setRefuse(nil)
	r.Trigger()
	r.wait(reloaded, 1)
	require.True(t, r.Status().OK)
	require.Equal(t, "@every 2m", r.Config().Jobs[0].Schedule)
}

func (r *reloading) setRefuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = err
}

func TestFileThatGoesAndComesBackIsNoticed(t *testing.T) {
	r := reload(t, every(1))

	require.NoError(t, os.Remove(r.file))
	r.wait(refused, 1)
	require.ErrorContains(t, r.Status().Err, "no such file")
	require.Len(t, r.Config().Jobs, 1)

	require.NoError(t, os.WriteFile(r.file, []byte(every(1)), 0o600))
	r.wait(again, 1)
	require.True(t, r.Status().OK)
	require.Equal(t, 1, r.Status().Generation, "nothing was changed")
	require.Empty(t, r.applied)
}

// Opening a pipe without a writer blocks, perhaps for ever.
func TestFilesThatBecomePipesAreRefusedAndNotWaitedFor(t *testing.T) {
	// given
	dir := t.TempDir()
	secrets, file := filepath.Join(dir, "digest"), filepath.Join(dir, "lockkeeper.yaml")
	text := every(1) + "zookeeper: {auth: {digest_file: digest}}\n"
	require.NoError(t, os.WriteFile(secrets, []byte("user:one"), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	r := reloadFile(t, file)

	for i, name := range []string{file, secrets} {
		was, err := os.ReadFile(name)
		require.NoError(t, err)

		// when
		require.NoError(t, syscall.Mkfifo(name+".new", 0o600))
		require.NoError(t, os.Rename(name+".new", name))

		// then
		r.wait(refused, i+1)
		require.ErrorContains(t, r.Status().Err, "is no regular file")

		// when
		replace(t, name, string(was))

		// then
		r.wait(again, i+1)
	}
}

// Kubernetes mounts a ConfigMap as links to a directory behind a link, which it
// swaps.
func TestSwappedLinkToADirectoryIsNoticed(t *testing.T) {
	// given
	dir := t.TempDir()
	mount := func(version, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, version, "lockkeeper.yaml"), []byte(text), 0o600))
		require.NoError(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	mount("..1", every(1))
	link := filepath.Join(dir, "lockkeeper.yaml")
	require.NoError(t, os.Symlink(filepath.Join("..data", "lockkeeper.yaml"), link))
	r := reloadFile(t, link)

	for i := 2; i < 6; i++ {
		// when
		mount(fmt.Sprintf("..%d", i), every(i))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", i-1))))

		// then
		r.wait(reloaded, i-1)
		require.Equal(t, fmt.Sprintf("@every %dm", i), r.Config().Jobs[0].Schedule)
	}

	// when the file behind the links is written in place
	replace(t, filepath.Join(dir, "..5", "lockkeeper.yaml"), every(6))

	// then
	r.wait(reloaded, 5)
}

func TestFilesThatTheFileNamesCountToo(t *testing.T) {
	// given
	dir := t.TempDir()
	secrets := filepath.Join(t.TempDir(), "digest")
	file := filepath.Join(dir, "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(secrets, []byte("user:one"), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(every(1)+"zookeeper: {auth: {digest_file: "+secrets+"}}\n"), 0o600))
	r := reloadFile(t, file)

	// when
	replace(t, secrets, "user:two")

	// then
	r.wait(refused, 1)
	require.ErrorContains(t, r.Status().Err, "zookeeper.auth cannot change while the daemon runs")
	require.NotContains(t, r.log(), "two")

	// when the secret goes, is named elsewhere, and comes there
	require.NoError(t, os.Remove(secrets))
	r.wait(refused, 2)
	replace(t, file, every(2)+"zookeeper: {auth: {digest_file: later}}\n")
	r.wait(refused, 3)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "later"), []byte("user:one"), 0o600))

	// then
	r.wait(reloaded, 1)
}

func TestWhatFlagsSayIsPutInBeforeFilesAreCompared(t *testing.T) {
	flags := func(c *Config) error {
		c.Client.Servers, c.Client.Root = []string{"zk:2181"}, "/flags"
		return nil
	}
	r := reload(t, every(1), func(c *ReloadConfig) {
		require.NoError(t, flags(c.Current))
		c.Prepare = flags
	})

	replace(t, r.file, every(2)+"zookeeper: {root: /file}\n")

	r.wait(reloaded, 1)
	require.Equal(t, "/flags", r.Config().Client.Root)
}

func TestChangeBetweenLoadAndRunIsNoticed(t *testing.T) {
	// given
	file := filepath.Join(t.TempDir(), "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(file, []byte(every(1)), 0o600))
	r := newReloading(t, file)
	replace(t, file, every(2))

	// when
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })

	// then
	r.wait(reloaded, 1)
	cancel()
	running.Wait()
}

func TestReloaderRefusesWhatCannotWork(t *testing.T) {
	apply := func(context.Context, *Config, Diff) error { return nil }
	current := mustParse(t, every(1))
	for want, cfg := range map[string]ReloadConfig{
		"Apply":    {Current: current},
		"Current":  {Apply: apply},
		"Debounce": {Apply: apply, Current: current, Debounce: -1},
	} {
		_, err := NewReloader(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestReloadReturnsWhenTheFileIsInForceOrRefused(t *testing.T) {
	t.Parallel()
	r := reload(t, file("jobs: {a: {schedule: manual, run: [a]}}\n"))
	for n := range 20 {
		job := fmt.Sprintf("b%d", n)
		require.NoError(t, os.WriteFile(r.file, []byte(file("jobs: {"+job+": {schedule: manual, run: [b]}}\n")), 0o600))
		require.NoError(t, r.Reload(t.Context()))
		require.Equal(t, job, r.Config().Jobs[0].Name)
	}
	require.NoError(t, os.WriteFile(r.file, []byte("version: 2\n"), 0o600))
	err := r.Reload(t.Context())
	require.ErrorContains(t, err, "version")
	require.Equal(t, err, r.Status().Err)
}

func TestReloadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(name, []byte(file("jobs: {a: {schedule: manual, run: [a]}}\n")), 0o600))
	r := newReloading(t, name) // which does not run
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	require.Equal(t, gone, r.Reload(ctx))
}
