package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// A demo starts everything, lets the jobs contend, and judges what has become
// of their data.
type demo struct {
	length time.Duration
	unsafe bool
	dir    string
	out    io.Writer
	paint  palette
}

var daemonNames = []string{"A", "B"}

func (d *demo) run(ctx context.Context) (err error) {
	if _, err := zkserver.Find(); err != nil {
		return fmt.Errorf("the demo needs ZooKeeper; run `make setup` (%w)", err)
	}
	remove, err := d.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(err == nil)) }()

	d.printf("\n  Starting ZooKeeper …")
	zk, err := zkserver.Run(ctx)
	if err != nil {
		d.printf("\n")
		return err
	}
	defer func() { err = errors.Join(err, zk.Close()) }()
	d.printf(" at %s, and two daemons. %s of work follow.\n\n", zk.Addr(), d.length)
	d.explain()

	line := &timeline{out: d.out, paint: d.paint, start: time.Now()}
	if err := d.contend(ctx, zk.Connect(), line); err != nil {
		return err
	}
	return d.judge(line)
}

// prepare makes the data set. What it returns removes that again, unless
// something is wrong or somebody wants to keep it.
func (d *demo) prepare() (remove func(fine bool) error, err error) {
	keep := d.dir != ""
	if keep {
		err = os.Mkdir(d.dir, 0o755)
	} else {
		d.dir, err = os.MkdirTemp("", "lockkeeper-nightly-")
	}
	if err != nil {
		return nil, err
	}
	if _, err := orders.Create(d.dir); err != nil {
		return nil, err
	}
	return func(fine bool) error {
		if keep || !fine {
			d.printf("  Data set and logs are kept in %s\n", d.dir)
			return nil
		}
		return os.RemoveAll(d.dir)
	}, nil
}

func (d *demo) explain() {
	name := func(s string) string { return d.paint.paint(bold, fmt.Sprintf("%-8s", s)) }
	d.printf("  %s batch, slow   rewrites the files of a data set in place; its cleanup puts them back\n", name("compact"))
	d.printf("  %s normal        saves the files in a tar file; its cleanup removes a half one\n", name("backup"))
	d.printf("  %s critical      corrects orders at once: asks whoever is at work to go, by force if need be\n\n", name("hotfix"))
	if d.unsafe {
		d.printf("  %s\n\n", d.paint.paint(red, "Without locks: any two of them at once spoil the data."))
		return
	}
	d.printf("  All three need the same lock, because any two of them at once would spoil the data.\n\n")
}

// contend runs the daemons for as long as the demo lasts.
func (d *demo) contend(ctx context.Context, zk string, line *timeline) error {
	ctx, cancel := context.WithTimeout(ctx, d.length)
	defer cancel()
	steps := make(chan step)
	var daemons sync.WaitGroup
	failures := make([]error, len(daemonNames))
	for i, name := range daemonNames {
		daemons.Go(func() {
			failures[i] = d.daemon(ctx, name, zk, steps)
			cancel() // the other one alone has nothing to show
		})
	}
	go func() {
		daemons.Wait()
		close(steps)
	}()
	line.follow(steps)
	d.printf("\n")
	return errors.Join(failures...)
}

// daemon runs one daemon as a process until ctx ends and its jobs have been
// drained.
func (d *demo) daemon(ctx context.Context, name, zk string, steps chan<- step) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(d.dir, "daemon-"+name+".log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	args := []string{"daemon", "--name", name, "--dir", d.dir}
	if d.unsafe {
		args = append(args, "--unsafe")
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "LOCKKEEPER_ZK="+zk)
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe() // ends with this process, however that ends
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = stdin.Close() })()
	for decoder := json.NewDecoder(stdout); ; {
		var s step
		if err := decoder.Decode(&s); err != nil {
			break
		}
		steps <- s
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("daemon %s: %w; see %s", name, err, log.Name())
	}
	return nil
}

// judge shows what has happened, and returns errVerdict if it is not what it
// should be.
func (d *demo) judge(line *timeline) error {
	end := time.Now()
	runs := runsOf(line.steps, end)
	counts := tallies(runs, line.steps)
	d.printf("%s\n", chart(runs, line.start, end, d.paint))
	d.printf("%s\n", table(counts, daemonNames, d.paint))
	verdict := verify(d.dir, d.out, d.paint)
	switch {
	case d.unsafe && errors.Is(verdict, errVerdict):
		d.printf("\n  That is what the lock is for. Run it again without --unsafe.\n")
	case verdict == nil && !d.unsafe && cleanups(counts) == 0:
		d.printf("\n  But no job was preempted and has cleaned up: run it for longer, with --for.\n")
		verdict = errVerdict
	case verdict == nil && !d.unsafe:
		d.printf("  %s a job was asked to go, put things right under its lock, and handed it over.\n", count(cleanups(counts), "time"))
	}
	d.printf("\n")
	return verdict
}

func (d *demo) printf(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }
