package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if signal.Ignored(s) { // as by nohup: what is caught here is the default for the programs that tests start
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8") // most of these tests wait
	}
	testscript.Main(m, map[string]func(){"lockkeeper": main})
}

// -update writes what cmp compares anew into the scripts, to be read in the diff.
var update = flag.Bool("update", false, "write what the scripts compare with anew")

// TestProgram runs what needs no ZooKeeper; integration/program has the rest.
func TestProgram(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		Cmds:               map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector's default is a second for each command
			return nil
		},
		UpdateScripts: *update,
	})
}

// exits CODE PROGRAM ARG... runs a program, which has to exit with CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("it exited with %d, not %s", code, args[0])
	}
}
