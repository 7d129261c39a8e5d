package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/top"
)

const (
	topPause = 250 * time.Millisecond // between two pictures of what has changed
	topPast  = 10 * time.Minute       // of the timeline of a lock
	topEsc   = 50 * time.Millisecond  // how soon the rest of what begins with an Esc follows
)

// errTopOver ends what was to be watched for some time.
var errTopOver = errors.New("watched for long enough")

// watchTop draws what boards see until somebody leaves, ctx ends, or none of them can
// look any more. However it ends, the terminal is as it was before.
func watchTop(ctx context.Context, boards topBoards, in, out *os.File, look top.Look) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &topWatch{
		boards: boards, look: look,
		typed: make(chan []byte), changed: make(chan struct{}, 1), ended: make(chan error, 3),
		crashed: make(chan topCrash, 3),
	}
	t, err := openTopTerminal(in, out)
	if err != nil {
		return err
	}
	defer t.close()
	w.terminal = t
	var running sync.WaitGroup
	for i := range boards.all {
		running.Add(1)
		w.guard(func() {
			defer running.Done()
			if err := boards.run(ctx, i); err != nil {
				w.end(ctx, err)
			}
		})
		w.guard(func() {
			for range boards.all[i].Changes(ctx) {
				select {
				case w.changed <- struct{}{}:
				default:
				}
			}
		})
	}
	w.guard(func() { w.end(ctx, w.read(ctx)) }) // ends with the next key, or the program
	err = w.loop(ctx)
	stop(errTopOver)
	running.Wait()
	return err
}

// A topWatch is the terminal's side of a top.View.
type topWatch struct {
	boards   topBoards
	look     top.Look
	terminal *topTerminal

	view     top.View
	keyboard top.Keyboard

	typed   chan []byte
	changed chan struct{}
	ended   chan error
	crashed chan topCrash
}

// A topCrash is a panic of a goroutine, until the terminal is as it was.
type topCrash struct {
	value any
	stack []byte
}

func (c topCrash) Error() string { return fmt.Sprintf("%v\n\n%s", c.value, c.stack) }

// guard runs f; when it panics, the loop does.
func (w *topWatch) guard(f func()) {
	go func() {
		defer func() {
			if value := recover(); value != nil {
				w.crashed <- topCrash{value, debug.Stack()}
			}
		}()
		f()
	}()
}

// end says that something has ended that the loop needs.
func (w *topWatch) end(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.ended <- err
	}
}

func (w *topWatch) read(ctx context.Context) error {
	for {
		b := make([]byte, 256)
		n, err := w.terminal.in.Read(b)
		if err != nil {
			return fmt.Errorf("the terminal cannot be read any more: %w", err)
		}
		select {
		case w.typed <- b[:n]:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *topWatch) loop(ctx context.Context) error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(resized)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	w.view = w.view.Resize(w.terminal.size())
	if err := w.draw(); err != nil {
		return err
	}
	last := time.Now()
	var due <-chan time.Time // a change is to be drawn
	var esc <-chan time.Time // a key may have been complete
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, errTopOver) {
				return err
			}
			return nil
		case err := <-w.ended:
			return err
		case crash := <-w.crashed:
			panic(crash)
		case b := <-w.typed:
			esc = w.press(w.keyboard.Type(b))
		case <-esc:
			esc = w.press(w.keyboard.Settle())
		case sig := <-resized:
			if sig == syscall.SIGCONT {
				w.terminal.enter()
			}
			w.terminal.forget()
			w.view = w.view.Resize(w.terminal.size())
		case <-w.changed:
			if early := topPause - time.Since(last); early > 0 {
				if due == nil {
					due = time.After(early)
				}
				continue
			}
		case <-due:
		case <-second.C:
		}
		if w.view.Over() {
			return nil
		}
		if err := w.draw(); err != nil {
			return err
		}
		due, last = nil, time.Now()
	}
}

func (w *topWatch) press(keys []top.Key) (esc <-chan time.Time) {
	for _, k := range keys {
		if k.Is == top.Redraw {
			w.terminal.forget()
		}
		was := w.view.Open()
		w.view = w.view.Press(k)
		if w.view.Open() != was {
			w.recall() // the next key may be about it
		}
	}
	if w.keyboard.Pending() {
		return time.After(topEsc)
	}
	return nil
}

// draw shows what there is now.
func (w *topWatch) draw() error {
	if s := w.boards.seen(); s.Version > 0 {
		w.view = w.view.See(s)
	}
	w.recall()
	return w.terminal.draw(w.view.Draw(w.look))
}

// recall tells what happened to the open lock.
func (w *topWatch) recall() {
	scope := w.view.Open()
	if scope == "" {
		return
	}
	board := w.boards.of(scope)
	now := board.now()
	t := board.Timeline(scope, now.Add(-topPast), time.Time{})
	first := now
	for _, r := range t.Rows {
		if begin := r.Spells[0].From; begin.Before(first) {
			first = begin
		}
	}
	if first.After(t.From) { // nothing happened before
		t = board.Timeline(scope, first, time.Time{})
	}
	w.view = w.view.Recall(t)
}
