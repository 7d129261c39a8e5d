package config

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deaf watches nothing: the test sends the changes.
func deaf() *watcher {
	w := &watcher{dirty: make(chan struct{}, 1), logger: slog.New(slog.DiscardHandler), over: make(chan struct{}), refused: map[string]bool{}}
	close(w.over)
	return w
}

// inVirtualTime runs a Reloader whose clock stands still unless every
// goroutine sleeps.
func inVirtualTime(t *testing.T, test func(t *testing.T, r *reloading, w *watcher)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(dir, "lockkeeper.yaml")
		require.NoError(t, os.WriteFile(file, []byte(every(1)), 0o600))
		r := newReloading(t, file, func(c *ReloadConfig) { c.Debounce = 200 * time.Millisecond })
		w := deaf()
		ctx, cancel := context.WithCancel(t.Context())
		go r.watch(ctx, w)
		synctest.Wait()
		test(t, r, w)
		cancel()
		synctest.Wait()
	})
}

func TestFilesAreReadWhenTheyHaveBeenLeftAlone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, r *reloading, w *watcher) {
		// given a file that is written in steps
		for i := range 5 {
			require.NoError(t, os.WriteFile(r.file, []byte(every(2)[:i*10]), 0o600))
			w.dirty <- struct{}{}
			time.Sleep(199 * time.Millisecond)
		}
		replace(t, r.file, every(2))
		w.dirty <- struct{}{}
		synctest.Wait()
		require.Empty(t, r.log())

		// when
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()

		// then
		require.Equal(t, "job changed job=a changes=schedule (\"@every 1m\" → \"@every 2m\")\n"+reloaded+" jobs_added=0 jobs_removed=0 jobs_changed=1", r.log())
	})
}

func TestDirectoryThatNeverRestsDoesNotPutOffTheReading(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, r *reloading, w *watcher) {
		replace(t, r.file, every(2))
		start := time.Now()
		for r.Status().Generation == 1 {
			select {
			case w.dirty <- struct{}{}:
			default:
			}
			time.Sleep(50 * time.Millisecond)
			require.Less(t, time.Since(start), 5*time.Second)
		}
		require.Greater(t, time.Since(start), time.Second)
	})
}

func TestTriggerDuringADebounceReadsAtOnceAndOnlyOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, r *reloading, w *watcher) {
		replace(t, r.file, every(2))
		w.dirty <- struct{}{}
		synctest.Wait()

		r.Trigger()
		r.Trigger()
		synctest.Wait()
		require.Equal(t, 2, r.Status().Generation)

		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(r.log(), reloaded))
	})
}

func TestChangeWithoutANotificationIsFound(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, r *reloading, _ *watcher) {
		replace(t, r.file, every(2))

		time.Sleep(lookAgain)
		synctest.Wait()

		require.Equal(t, 2, r.Status().Generation)
	})
}

func TestDirectoriesOfLinks(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, dir := range []string{"a", "b", "c"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o700))
	}
	link := func(target, name string) { require.NoError(t, os.Symlink(target, filepath.Join(root, name))) }
	link("../b/two", "a/one")
	link(filepath.Join(root, "c"), "b/three")
	link("three/four", "b/two")
	link("loop", "c/loop")

	in := func(names ...string) []string {
		for i, name := range names {
			names[i] = filepath.Join(root, name)
		}
		return names
	}
	require.Equal(t, in("a", "b", "c"), directories(filepath.Join(root, "a", "one")))
	require.Equal(t, in("c"), directories(filepath.Join(root, "c", "missing")))
	require.Equal(t, in("c"), directories(filepath.Join(root, "c", "loop")))
}
