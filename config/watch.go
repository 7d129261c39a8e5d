package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// A watcher tells when something has happened near files. It watches their
// directories, and those that links lead through: editors replace files instead
// of writing them, and Kubernetes swaps a link to a directory. What happened,
// and whether it matters, is for the reader of the files to find out.
type watcher struct {
	dirty   chan struct{} // something has happened
	logger  *slog.Logger
	notify  *fsnotify.Watcher // nil: no notifications of changes
	over    chan struct{}     // closed when nothing is forwarded any more
	refused map[string]bool   // directories that cannot be watched: said once
}

func newWatcher(logger *slog.Logger) *watcher {
	w := &watcher{dirty: make(chan struct{}, 1), logger: logger, over: make(chan struct{}), refused: map[string]bool{}}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		logger.Warn("files cannot be watched; they are polled", "every", lookAgain, "error", err)
		close(w.over)
		return w
	}
	w.notify = notify
	go w.forward()
	return w
}

// forward never lets the kernel wait, however long the reading takes.
func (w *watcher) forward() {
	defer close(w.over)
	for {
		select {
		case _, open := <-w.notify.Events:
			if !open {
				return
			}
		case err, open := <-w.notify.Errors:
			if !open {
				return
			}
			w.logger.Debug("watching files", "error", err) // what was lost may have been a change
		}
		select {
		case w.dirty <- struct{}{}:
		default:
		}
	}
}

// follow watches the given files from now on, and no others. What cannot be
// watched is tried again by the next call.
func (w *watcher) follow(files []string) {
	if w.notify == nil {
		return
	}
	var wanted []string
	for _, name := range files {
		wanted = append(wanted, directories(name)...)
	}
	has := w.notify.WatchList() // without those that were removed
	for _, dir := range has {
		if !slices.Contains(wanted, dir) {
			_ = w.notify.Remove(dir) // it has gone by itself
		}
	}
	for _, dir := range wanted {
		if slices.Contains(has, dir) {
			continue
		}
		err := w.notify.Add(dir)
		if err != nil && !w.refused[dir] {
			w.logger.Warn("a directory cannot be watched; its files are polled",
				"directory", dir, "every", lookAgain, "error", err)
		}
		w.refused[dir] = err != nil
	}
}

func (w *watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close() // no one reads its events any more
	}
	<-w.over
}

// directories returns where a file is and where the links are that lead to it.
func directories(name string) []string {
	const longest = 40 // links: a loop ends
	absolute, err := filepath.Abs(name)
	if err != nil {
		return nil
	}
	const slash = string(filepath.Separator)
	root := filepath.VolumeName(absolute) + slash
	at, links := root, 0
	rest := strings.Split(strings.TrimPrefix(absolute, root), slash)
	var all []string
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		target, err := os.Readlink(next)
		switch {
		case err == nil && links < longest:
			links++
			all = append(all, at)
			if filepath.IsAbs(target) {
				at = root
				target = strings.TrimPrefix(filepath.Clean(target), root)
			}
			rest = append(strings.Split(filepath.Clean(target), slash), rest[1:]...)
			continue
		case len(rest) == 1:
			all = append(all, at)
		}
		at, rest = next, rest[1:]
	}
	slices.Sort(all)
	return slices.Compact(all)
}
