// Command nightly shows Lockkeeper at work: two daemons, three jobs, one data
// set of real files, one real ZooKeeper. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `Usage:
  nightly [flags]        run the demo: a ZooKeeper, two daemons, three jobs that share a data set
  nightly verify DIR     check the data set in DIR
  nightly daemon ...     one of the two daemons; the demo starts it

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns the exit code: 0 if nothing is corrupted and
// all was shown, 1 if not, 2 for wrong arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == "daemon":
		err = daemonCommand(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "verify":
		err = verifyCommand(args[1:], stdout, stderr)
	default:
		err = demoCommand(ctx, args, stdout, stderr)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, errVerdict): // has been printed
		return 1
	}
	_, _ = fmt.Fprintf(stderr, "nightly: %v\n", err)
	return 1
}

// errUsage is returned when the arguments are wrong and that has been said.
var errUsage = errors.New("wrong arguments")

func demoCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var d demo
	flags := newFlags("nightly", stderr)
	flags.DurationVar(&d.length, "for", 25*time.Second, "how long the jobs contend")
	flags.BoolVar(&d.unsafe, "unsafe", false, "run the same jobs without locks, to see what they are for")
	flags.StringVar(&d.dir, "dir", "", "keep the data set and the logs in this new directory (default a temporary one)")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	d.out, d.paint = stdout, paletteFor(stdout, os.Getenv)
	return d.run(ctx)
}

func verifyCommand(args []string, stdout, stderr io.Writer) error {
	flags := newFlags("nightly verify", stderr)
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	return verify(flags.Arg(0), stdout, paletteFor(stdout, os.Getenv))
}

func daemonCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var d daemon
	flags := newFlags("nightly daemon", stderr)
	flags.StringVar(&d.name, "name", "A", "name of the daemon")
	flags.StringVar(&d.dir, "dir", "", "directory of the data set")
	flags.BoolVar(&d.unsafe, "unsafe", false, "run the jobs without locks")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	d.steps, d.log = stdout, stderr
	return d.run(ctx)
}

func newFlags(name string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	return flags
}

func parse(flags *flag.FlagSet, args []string, operands int) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return errUsage
	case flags.NArg() != operands:
		flags.Usage()
		return errUsage
	}
	return nil
}
