package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// hangs bounds a hang, and asserts no speed.
const hangs = 2 * time.Minute

// The scripts of the tutorials start programs that go on, and wait for conditions:
//
//	start NAME PROGRAM ARG...        start a program; the end of the script ends it
//	prints NAME REGEXP [VAR]         wait until it has written that, and keep the first group
//	until REGEXP PROGRAM ARG...      run a program again and again, until its output has that
//	like FILE                        the last output has that of the file, but for times, numbers, rows that differ in
//	                                 these alone, and the name of the host
//	ends NAME CODE                   wait until it ends, with that exit code
//	interrupt NAME CODE              the same after a SIGINT
func tutorialCommands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"exits": exits, "start": start, "prints": prints, "until": until, "like": like, "ends": ends, "interrupt": interrupt,
	}
}

// A background is a program that a script has started.
type background struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out strings.Builder
}

func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *background) output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

type backgroundsKey struct{}

func backgrounds(ts *testscript.TestScript) map[string]*background {
	return ts.Value(backgroundsKey{}).(map[string]*background)
}

// withBackgrounds lets the script start programs, and ends them when it ends.
func withBackgrounds(env *testscript.Env) {
	all := map[string]*background{}
	env.Values[backgroundsKey{}] = all
	env.Defer(func() {
		for _, b := range all {
			_ = b.cmd.Process.Signal(syscall.SIGTERM)
		}
		for _, b := range all {
			select {
			case <-b.done:
			case <-time.After(hangs):
				_ = b.cmd.Process.Kill()
			}
		}
	})
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARG...")
	}
	b := &background{cmd: exec.Command(args[1], args[2:]...), done: make(chan struct{})}
	b.cmd.Dir = ts.MkAbs(".")
	for name := range strings.FieldsSeq("PATH HOME TMPDIR WORK GORACE LOCKKEEPER_ZK LOCKKEEPER_ZK_DIGEST_FILE") {
		if value := ts.Getenv(name); value != "" {
			b.cmd.Env = append(b.cmd.Env, name+"="+value)
		}
	}
	b.cmd.Stdout, b.cmd.Stderr = b, b
	ts.Check(b.cmd.Start())
	go func() {
		_ = b.cmd.Wait()
		close(b.done)
	}()
	backgrounds(ts)[args[0]] = b
}

func prints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: prints NAME REGEXP [VAR]")
	}
	b, pattern := backgrounds(ts)[args[0]], regexp.MustCompile("(?m)"+args[1])
	eventually(ts, func() bool {
		found := pattern.FindStringSubmatch(b.output())
		if found != nil && len(args) == 3 {
			ts.Setenv(args[2], found[1])
		}
		return found != nil
	}, func() string { return b.output() })
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM ARG...")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	eventually(ts, func() bool {
		_ = ts.Exec(args[1], args[2:]...)
		return pattern.MatchString(ts.ReadFile("stdout"))
	}, func() string { return ts.ReadFile("stdout") + ts.ReadFile("stderr") })
}

func eventually(ts *testscript.TestScript, holds func() bool, state func() string) {
	for deadline := time.Now().Add(hangs); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("not within %s:\n%s", hangs, state())
		}
	}
}

// What differs from one run to the next: times, numbers, IDs, and where lines break. A time has its day with it if it is not
// today's.
var varies = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|s|m|h|d|%)?)+\b|\b[0-9a-f]{24}\b`)

var days = regexp.MustCompile(`\b((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(\d{4}-)?\d{2}-\d{2} (\d{2}:)`)

// A time has no seconds if it is a whole minute.
var clocks = regexp.MustCompile(`\b\d{2}:\d{2}(:\d{2})?\b`)

func like(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: like FILE")
	}
	host, err := os.Hostname()
	ts.Check(err)
	got, want := ts.ReadFile("stdout"), ts.ReadFile(args[0])
	loose := func(text string) string {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(text, "laptop")
		text = clocks.ReplaceAllString(days.ReplaceAllString(text, "$4"), "N")
		lines := strings.Split(varies.ReplaceAllString(text, "N"), "\n")
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		return strings.Join(strings.Fields(strings.Join(slices.Compact(lines), " ")), " ")
	}
	if !strings.Contains(loose(got), loose(want)) {
		ts.Fatalf("%s has\n%s\nand the output is\n%s", args[0], want, got)
	}
}

func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(backgrounds(ts)[args[0]].cmd.Process.Signal(syscall.SIGINT))
	ends(ts, neg, args)
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ends|interrupt NAME CODE")
	}
	b := backgrounds(ts)[args[0]]
	select {
	case <-b.done:
	case <-time.After(hangs):
		ts.Fatalf("%s does not end:\n%s", args[0], b.output())
	}
	if code := b.cmd.ProcessState.ExitCode(); strconv.Itoa(code) != args[1] {
		ts.Fatalf("%s exited with %d:\n%s", args[0], code, b.output())
	}
}
