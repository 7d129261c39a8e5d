package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usage = `usage: testrun unit|test|rest|full [-at-once 6] [-race=false] [-flags 'flags of go test']
       testrun flaky [-n 20] [-at-once 6] [-race=false] [package directory ...]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns 0 when all passed, 1 when something failed, and 2 when the arguments are wrong.
func run(ctx context.Context, args []string, out, errors io.Writer) int {
	if len(args) == 0 {
		_, _ = fmt.Fprint(errors, usage)
		return 2
	}
	root, err := os.Getwd()
	if err == nil {
		_, err = os.Stat(filepath.Join(root, "integration", "testrun"))
	}
	if err != nil {
		_, _ = fmt.Fprintf(errors, "testrun: start it in the root of the repository: %v\n", err)
		return 2
	}
	flags := flag.NewFlagSet("testrun "+args[0], flag.ContinueOnError)
	flags.SetOutput(errors)
	n, atOnce := new(int), flags.Int("at-once", 6, "packages at once, of all parts")
	race, more := flags.Bool("race", true, "with the race detector"), flags.String("flags", "", "more flags of go test")
	if args[0] == "flaky" {
		n = flags.Int("n", 20, "how many times")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	if *atOnce < 1 || args[0] == "flaky" && *n < 1 {
		_, _ = fmt.Fprintln(errors, "testrun: nothing would be tested; write 1 or more for -n and -at-once")
		return 2
	}
	parts, err := choose(args[0], flags.Args())
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(errors, "testrun: %v\n", err)
		return 2
	case parts == nil:
		_, _ = fmt.Fprint(errors, usage)
		return 2
	}
	r := &runner{root: root, logs: filepath.Join(root, "dist", "test", args[0]), out: out, flags: append(lean(),
		strings.Fields(*more)...)}
	if *race {
		r.flags = append(r.flags, "-race")
	}
	if err := os.RemoveAll(r.logs); err != nil { // of the last run, which wrong arguments leave
		_, _ = fmt.Fprintf(errors, "testrun: %v\n", err)
		return 2
	}
	var passed bool
	if args[0] == "flaky" {
		passed = flaky(ctx, r, parts, *n, *atOnce)
	} else {
		passed = r.run(ctx, parts, *atOnce)
	}
	if !passed {
		return 1
	}
	return 0
}

// choose returns the parts of a run; nil: there is no such run.
func choose(name string, packages []string) ([]*part, error) {
	switch name {
	case "unit":
		return unitParts(), nil
	case "test":
		return testParts(), nil
	case "rest":
		return restParts(), nil
	case "full":
		return append(testParts(), restParts()...), nil
	case "flaky":
		return partsOf(packages)
	}
	return nil, nil
}
