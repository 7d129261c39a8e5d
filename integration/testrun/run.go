package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs parts of the suite and keeps what failed.
type runner struct {
	root string // of the repository
	logs string // directory for what failed tests print
	out  io.Writer

	flags []string // of go test, for all parts

	several  bool // parts run side by side
	compiled sync.Once

	mu       sync.Mutex
	packages int
	tests    int
	skipped  []string
	again    []string // packages that were run again: the race detector had crashed
	failures []failed
}

// failed is a failure with what it takes to look at it and to repeat it.
type failed struct {
	failure
	part  *part
	log   string // file
	again string // command
}

// run runs parts and prints a summary. It returns whether all passed.
func (r *runner) run(ctx context.Context, parts []*part, atOnce int) bool {
	begin := time.Now()
	r.several = len(parts) > 1
	r.parts(ctx, parts, atOnce)
	r.summary(time.Since(begin))
	return len(r.failures) == 0 && ctx.Err() == nil
}

// parts runs parts side by side, as long as they test no more than atOnce packages at a time, then those that run
// alone.
func (r *runner) parts(ctx context.Context, parts []*part, atOnce int) {
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	var alone []*part
	for _, p := range parts {
		if p.alone {
			alone = append(alone, p)
			continue
		}
		takes := min(max(1, p.atOnce), atOnce)
		for range takes {
			places <- struct{}{}
		}
		running.Go(func() {
			r.part(ctx, p)
			for range takes {
				<-places
			}
		})
	}
	running.Wait()
	for _, p := range alone {
		r.part(ctx, p)
	}
}

// compile compiles what the parts of the root module have in common: go commands side by side would each do it. The
// parts that need what cannot be compiled say so.
func (r *runner) compile(ctx context.Context) {
	args := []string{"list", "-export"}
	if slices.Contains(r.flags, "-race") {
		args = append(args, "-race")
	}
	_ = r.command(ctx, &part{}, "go", append(args, "./...")...).Run()
}

// part runs one go test command to its end.
func (r *runner) part(ctx context.Context, p *part) {
	packages, err := p.list(ctx, r.root)
	if err != nil {
		r.fail(p, failure{output: err.Error()})
		return
	}
	for _, prepare := range p.prepare {
		if out, err := r.command(ctx, p, "sh", "-c", prepare).CombinedOutput(); err != nil {
			r.fail(p, failure{output: fmt.Sprintf("%s: %v\n%s", prepare, err, out)})
			return
		}
	}
	if r.several && p.dir == "" {
		r.compiled.Do(func() { r.compile(ctx) })
	}
	for try := 1; len(packages) > 0; try++ {
		args := slices.Concat([]string{"test", "-json", anew, "-timeout=" + limit}, r.flags, p.flags(), packages)
		packages = r.follow(p, r.command(ctx, p, "go", args...), try < tries)
	}
}

// anew keeps the go command from taking results from its cache: it does not see that a program, a script or a server
// that a test starts has changed.
const anew = "-count=1"

// tries is how often a package is run at most when the race detector crashes.
const tries = 3

// limit ends tests that hang. On a machine with ten times as much to do as it can, no package takes that long.
const limit = "30m"

// follow runs a command that tells in JSON what becomes of tests. If it may, it returns the packages that are
// to be run again, as the race detector has crashed.
func (r *runner) follow(p *part, cmd *exec.Cmd, may bool) (again []string) {
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		r.fail(p, failure{output: err.Error()})
		return nil
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		r.fail(p, failure{output: err.Error()})
		return nil
	}
	failed := false
	strays, err := read(pipe, func(o outcome) {
		failed = failed || o.result == "fail"
		if may && o.undecided() {
			again = append(again, o.pkg)
			r.noteCrash(p, o)
			return
		}
		r.take(p, o)
	})
	if err := errors.Join(err, cmd.Wait()); err != nil && !failed {
		r.fail(p, failure{output: fmt.Sprintf("%v\n%s%s", err, strays, complaints.String())})
	}
	return again
}

// noteCrash notes a package that is run again.
func (r *runner) noteCrash(p *part, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = append(r.again, fmt.Sprintf("%s: %s", p.name, short(o.pkg)))
	_, _ = fmt.Fprintf(r.out, "again %7s  %-12s %s\n", o.took.Round(100*time.Millisecond), p.name, short(o.pkg))
}

// command is a command in the part's directory and with its settings. When ctx ends, it and its children get a
// request to end, and are killed five seconds later.
func (r *runner) command(ctx context.Context, p *part, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(r.root, p.dir)
	cmd.Env = append(append(os.Environ(), p.env...), logsVariable+"="+r.logs, atExit+" "+os.Getenv(raceVariable))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// The race detector waits a second at the end of each process, for races that come late. Tests have waited for
// what they started, and start programs a thousand times.
const (
	raceVariable = "GORACE"
	atExit       = raceVariable + "=atexit_sleep_ms=0"
)

// logsVariable tells tests where to leave the logs of servers when they fail.
const logsVariable = "LOCKKEEPER_TEST_LOGS"

// take notes a package whose tests have ended.
func (r *runner) take(p *part, o outcome) {
	if o.result == "skip" { // no tests
		return
	}
	took := o.took.Round(100 * time.Millisecond).String()
	word := "ok  "
	if o.result == "fail" {
		word = "FAIL"
	}
	r.mu.Lock()
	r.packages++
	r.tests += o.passed + len(o.failed)
	for _, test := range o.skipped {
		r.skipped = append(r.skipped, short(o.pkg)+" "+test)
	}
	_, _ = fmt.Fprintf(r.out, "%s %8s  %-12s %s\n", word, took, p.name, short(o.pkg))
	for _, f := range o.failed {
		_, _ = fmt.Fprintf(r.out, "                         %s\n", f.title())
	}
	r.mu.Unlock()
	for _, f := range o.failed {
		r.fail(p, f)
	}
}

func (f failure) title() string {
	if f.test == whole {
		return "could not be built, or did not run to its end"
	}
	return f.test
}

// fail keeps a failure, and writes all that it printed into a file.
func (r *runner) fail(p *part, f failure) {
	name := strings.NewReplacer("/", "_", " ", "_").Replace(short(f.pkg) + "-" + f.test)
	log := filepath.Join(r.logs, p.name, name[:min(len(name), 200)]+".log")
	err := os.MkdirAll(filepath.Dir(log), 0o755)
	if err == nil {
		err = os.WriteFile(log, []byte(f.output), 0o644)
	}
	if err != nil {
		log = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, failed{failure: f, part: p, log: log, again: p.again(f)})
}

// module is what import paths begin with.
const module = "github.com/lockkeeper/lockkeeper"

// short is a package's directory in the repository.
func short(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// The summary shows so many lines of a failure, and so many bytes of each: the first, if the reason is
// among them, else a few of these and the reason, or what was said last.
const (
	excerpt = 24
	opening = 4
	width   = 300
)

// reason is how a line begins that says why a test failed: testify's, the runtime's, the race detector's.
var reason = regexp.MustCompile(`^\s*(Error Trace:|Error:|panic: |fatal error: |WARNING: DATA RACE)`)

// telling returns the lines of a failure that the summary shows.
func telling(lines []string) []string {
	why := slices.IndexFunc(lines, reason.MatchString)
	if why < 0 { // what was said last, most likely
		why = max(0, len(lines)-excerpt) + 1
	}
	if why < excerpt/2 || len(lines) <= excerpt {
		return lines[:min(len(lines), excerpt)]
	}
	shown := append(slices.Clone(lines[:opening]), "[…]")
	for _, line := range lines[opening : why-1] { // how to see it again
		if strings.Contains(line, "seed") {
			shown = append(shown, line)
		}
	}
	return append(shown, lines[why-1:min(len(lines), why-1+excerpt)]...)
}

// summaryFile keeps the summary of the last run, beside the logs.
const summaryFile = "summary.txt"

// summary prints what failed and how to go on, and keeps it in a file.
func (r *runner) summary(took time.Duration) {
	var text bytes.Buffer
	r.summarize(&text, took)
	_, _ = r.out.Write(text.Bytes())
	err := os.MkdirAll(r.logs, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.logs, summaryFile), text.Bytes(), 0o644)
	}
	if err != nil {
		_, _ = fmt.Fprintf(r.out, "the summary is not kept: %v\n", err)
	}
}

func (r *runner) summarize(out io.Writer, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.failures {
		_, _ = fmt.Fprintf(out, "\n--- FAIL %s: %s %s\n", f.part.name, short(f.pkg), f.title())
		lines := strings.Split(strings.TrimRight(frames.ReplaceAllString(f.output, ""), "\n"), "\n")
		for _, line := range telling(lines) {
			_, _ = fmt.Fprintf(out, "    %s\n", line[:min(len(line), width)])
		}
		_, _ = fmt.Fprintf(out, "  all of it: %s\n", f.log)
		_, _ = fmt.Fprintf(out, "  again:     %s\n", f.again)
	}
	for _, pkg := range r.again {
		_, _ = fmt.Fprintf(out, "run again, the race detector had crashed: %s\n", pkg)
	}
	slices.Sort(r.skipped)
	for _, test := range r.skipped {
		_, _ = fmt.Fprintf(out, "skipped: %s\n", test)
	}
	_, _ = fmt.Fprintf(out, "\n%d tests in %d packages, %d failed, %d skipped; %s\n",
		r.tests, r.packages, len(r.failures), len(r.skipped), took.Round(time.Second))
}
