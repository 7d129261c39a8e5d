package jobs

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// output carries what a command writes to writers that it cannot inherit.
type output struct {
	ours, theirs []*os.File // ends of pipes
	writers      []io.Writer
	copying      sync.WaitGroup
}

// newOutput connects cmd. Then call started if it has been, and drain in any
// case.
func newOutput(cmd *exec.Cmd, stdout, stderr io.Writer) (*output, error) {
	o := &output{}
	var err error
	if cmd.Stdout, err = o.connect(stdout); err != nil {
		o.drain()
		return nil, err
	}
	if same(stdout, stderr) {
		cmd.Stderr = cmd.Stdout
		return o, nil
	}
	if cmd.Stderr, err = o.connect(stderr); err != nil {
		o.drain()
		return nil, err
	}
	return o, nil
}

// connect returns what the command inherits to write to w.
func (o *output) connect(w io.Writer) (io.Writer, error) {
	switch w := w.(type) {
	case nil:
		return nil, nil
	case *os.File:
		return w, nil
	}
	r, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.ours, o.theirs, o.writers = append(o.ours, r), append(o.theirs, theirs), append(o.writers, w)
	return theirs, nil
}

// same reports whether two writers are one; those that cannot be compared are
// not.
func same(a, b io.Writer) (is bool) {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

// started begins to copy.
func (o *output) started() {
	o.closeTheirs()
	for i, r := range o.ours {
		o.copying.Go(func() {
			if _, err := io.Copy(o.writers[i], r); err != nil {
				_, _ = io.Copy(io.Discard, r) // a writer that fails must not block the command
			}
		})
	}
}

// drain returns when all that the group wrote has arrived. A process that has
// left the group and keeps the pipe is given up after a moment.
func (o *output) drain() {
	o.closeTheirs()
	for _, r := range o.ours {
		_ = r.SetReadDeadline(time.Now().Add(time.Second))
	}
	o.copying.Wait()
	for _, r := range o.ours {
		_ = r.Close()
	}
}

func (o *output) closeTheirs() {
	for _, w := range o.theirs {
		_ = w.Close()
	}
	o.theirs = nil
}
