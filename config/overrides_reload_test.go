package config

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/override"
)

// overridesReloading is an OverridesReloader at work.
type overridesReloading struct {
	*OverridesReloader
	t    *testing.T
	main *Config
	file string
	logs *reloading

	mu      sync.Mutex
	changed chan struct{}
	ids     []string // of each Apply
}

// reloadOverrides lets an OverridesReloader work until the test ends.
func reloadOverrides(t *testing.T, file string, options ...func(*OverridesReloadConfig)) *overridesReloading {
	t.Helper()
	before := goleak.IgnoreCurrent()
	r := newOverridesReloading(t, file, options...)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		goleak.VerifyNone(t, before)
	})
	return r
}

func newOverridesReloading(t *testing.T, file string, options ...func(*OverridesReloadConfig)) *overridesReloading {
	t.Helper()
	r := &overridesReloading{
		t: t, file: file, changed: make(chan struct{}),
		main: &Config{File: "main.yaml", Emergency: Emergency{File: file, MaxDuration: 24 * time.Hour}},
		logs: &reloading{t: t, ended: map[string]int{}, change: make(chan struct{})},
	}
	cfg := OverridesReloadConfig{
		Apply: func(all []override.Override) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ids = append(r.ids, ids(all))
			close(r.changed)
			r.changed = make(chan struct{})
		},
		Config: r.main, Logger: slog.New(r.logs),
	}
	for _, option := range options {
		option(&cfg)
	}
	var err error
	r.OverridesReloader, err = NewOverridesReloader(cfg)
	require.NoError(t, err)
	return r
}

func (r *overridesReloading) applied() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.ids...)
}

// within waits until so many lists were put in force. That it takes less than
// a second is tested in virtual time.
func (r *overridesReloading) within(n int) string {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		r.mu.Lock()
		all, changed := r.ids, r.changed
		r.mu.Unlock()
		if len(all) >= n {
			return all[n-1]
		}
		select {
		case <-changed:
		case <-deadline:
			require.FailNow(r.t, "not in force", "%d of %d\n%s", len(all), n, r.logs.log())
		}
	}
}

const (
	inForce    = "overrides file in force"
	notInForce = "overrides file not in force; the overrides before stay so"
	forceAgain = "overrides in force are those of the file again"
)

// frozen makes a file with freezes of these names.
func frozen(names ...string) string {
	text := "overrides:\n"
	for _, name := range names {
		text += fmt.Sprintf("  - {id: %s, kind: freeze, by: ana, reason: disk, until: %s}\n", name, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}
	return text
}

func TestOverridesAreInForceAfterAChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "o.yaml")
	require.NoError(t, os.WriteFile(file, []byte(frozen("a")), 0o600))
	r := reloadOverrides(t, file)
	require.Equal(t, []string{"a"}, r.applied(), "before anything is started")

	replace(t, file, frozen("a", "b"))
	require.Equal(t, "a,b", r.within(2))

	require.NoError(t, os.WriteFile(file, []byte(frozen("c")), 0o600)) // in place
	for n := 3; ; n++ {                                                // an empty file may have been seen
		if r.within(n) == "c" {
			break
		}
	}
	generation := r.Status().Generation

	n := len(r.applied()) // before: it may be in force by the time that Remove returns
	require.NoError(t, os.Remove(file))
	require.Empty(t, r.within(n+1), "its overrides end with the file")
	require.Eventually(t, func() bool { return strings.Contains(r.logs.log(), "the file is not there") }, time.Minute, time.Millisecond)
	require.True(t, r.Status().OK)
	require.Equal(t, generation+1, r.Status().Generation)

	require.NoError(t, os.WriteFile(file+".new", []byte(frozen("d")), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	require.Equal(t, "d", r.within(n+2))
}

func TestBadOverridesFileLeavesThoseBeforeInForce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "o.yaml")
	require.NoError(t, os.WriteFile(file, []byte(frozen("a")), 0o600))
	r := reloadOverrides(t, file)

	replace(t, file, strings.Replace(frozen("b", "c"), "freeze", "freze", 2))
	r.logs.wait(notInForce, 1)

	status := r.Status()
	require.False(t, status.OK)
	require.ErrorContains(t, status.Err, file+`:2:19 overrides[0].kind: "freze" is not possible here; did you mean "freeze"?`)
	require.Contains(t, r.logs.log(), "problems=2 overrides=1 error="+file+`:2:19 overrides[0].kind: "freze" is not possible here; did you mean "freeze"? | `+file+`:3:19 overrides[1].kind: "freze"`)
	require.Equal(t, []string{"a"}, r.applied())

	replace(t, file, frozen("a"))
	require.Eventually(t, func() bool { return r.Status().OK }, time.Minute, time.Millisecond)
	require.Equal(t, "a", r.within(len(r.applied())))
}

func TestFileInADirectoryThatIsNotThereYetIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	file := filepath.Join(dir, "o.yaml")
	r := reloadOverrides(t, file)
	require.Contains(t, r.logs.log(), "the file is not there")

	require.NoError(t, os.Mkdir(dir, 0o700))
	replace(t, file, frozen("a"))
	require.Equal(t, "a", r.within(1))
}

func TestAnotherConfigurationHasTheFileReadAnew(t *testing.T) {
	// given a file with a class that the main file does not have
	dir := t.TempDir()
	name := filepath.Join(dir, "o.yaml")
	text := strings.ReplaceAll(frozen("a"), "kind: freeze", "kind: cap, priority: batch")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	r := reloadOverrides(t, name)
	require.ErrorContains(t, r.Status().Err, `unknown priority class "batch"`)

	// when it gets it
	main := *r.main
	main.Classes = mustParse(t, file(classes)).Classes
	r.SetConfig(&main)

	// then
	require.Equal(t, "a", r.within(1))

	// when it names another file
	other := main
	other.Emergency.File = filepath.Join(dir, "other.yaml")
	require.NoError(t, os.WriteFile(other.Emergency.File, []byte(frozen("b")), 0o600))
	r.SetConfig(&other)

	// then
	require.Equal(t, "b", r.within(2))
	replace(t, other.Emergency.File, frozen("c"))
	require.Equal(t, "c", r.within(3))

	// when it names none
	none := main
	none.Emergency.File = ""
	r.SetConfig(&none)

	// then
	require.Empty(t, r.within(4))
}

func TestCommentsChangeNothingThatIsInForce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "o.yaml")
	text := frozen("a")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	r := reloadOverrides(t, file)

	replace(t, file+"2", "")
	replace(t, file, strings.Replace(text, "freeze", "freze", 1))
	r.logs.wait(notInForce, 1)
	replace(t, file, "# as before\n"+text)
	r.logs.wait(forceAgain, 1) // so that it was read

	require.Equal(t, []string{"a"}, r.applied())
	require.Equal(t, 2, r.Status().Generation)
}

func TestChangesThatDoNotEndPutOverridesOffByHalfASecondAtMost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "o.yaml")
	synctest.Test(t, func(t *testing.T) {
		r := newOverridesReloading(t, file)
		w := deaf()
		ctx, cancel := context.WithCancel(t.Context())
		go r.watch(ctx, w)
		synctest.Wait()

		replace(t, file, frozen("a"))
		began := time.Now()
		for len(r.applied()) == 0 && time.Since(began) < 2*time.Second {
			w.dirty <- struct{}{}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, []string{"a"}, r.applied())
		require.LessOrEqual(t, time.Since(began), 600*time.Millisecond)

		// and without notifications of changes
		replace(t, file, frozen("b"))
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, r.applied())
		cancel()
		synctest.Wait()
	})
}

func TestOverridesReloaderRefusesWhatCannotWork(t *testing.T) {
	apply := func([]override.Override) {}
	for want, cfg := range map[string]OverridesReloadConfig{
		"Apply":    {Config: &Config{}},
		"Config":   {Apply: apply},
		"Debounce": {Apply: apply, Config: &Config{}, Debounce: -1},
	} {
		_, err := NewOverridesReloader(cfg)
		require.ErrorContains(t, err, want)
	}
}
