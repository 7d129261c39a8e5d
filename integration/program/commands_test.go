package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// The words of the stories, beside those of testscript. Those that wait do so
// for what they name, and fail after harness.Patience.
//
//	exits CODE PROGRAM ARG...  run a program, which has to exit with CODE; with 0: again if ZooKeeper was too slow for it
//	start NAME PROGRAM ARG...  start a program and go on
//	ends NAME CODE             wait for the end of a started program
//	tells NAME REGEXP [VAR]    wait until a started program has a line like that in stderr
//	prints NAME REGEXP [VAR]   the same of stdout; VAR gets what the first group of REGEXP matches
//	until REGEXP PROGRAM ARG... run a program again and again, until it has a line like that in stdout
//	like FILE                  the last stdout has the text of FILE, but for times, numbers, rows that differ in these
//	                           alone, and the name of the host
//	serves ADDRESS PATH REGEXP wait until what a program serves by HTTP has a line like that; ! serves: no server listens there
//	refuses ADDRESS METHOD PATH STATUS [HOST]  what is served by HTTP answers so, asked for under that name
//	signal SIGNAL NAME         send a signal to a started program
//	holds OWNER SCOPE          wait until OWNER holds SCOPE
//	traces SCOPE TRACEPARENT   the holder of SCOPE came with that traceparent
//	queue SCOPE N              wait until N requests wait for SCOPE
//	cross SCOPE SCOPE          two works, left and right, each hold one lock and wait for the other's
//	empty SCOPE                SCOPE has neither holder nor waiter, right now
//	says FILE REGEXP           wait until FILE has a line like that
//	gone FILE                  wait until the process whose id is in FILE has ended
//	dead FILE                  the process whose id is in FILE has ended already
//	grows FILE FILE            the number in the first file is below that in the second
//	tick JOB INSTANT OUTCOME [REASON]  decide a tick as a daemon would; begins: it goes on
//	takes JOB                  wait until a run by hand is asked for, and begin it
//	finishes JOB OUTCOME [REASON]  end a run that was begun so
//	asked JOB                  wait until a run by hand is asked for
//	unasked                    there is no request for a run by hand
//	network STATE              pass, cut or swallow packets between $PROXY and ZooKeeper
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"exits":   exits,
		"start":   start,
		"ends":    ends,
		"signal":  sendSignal,
		"tells":   tells,
		"prints":  prints,
		"until":   until,
		"like":    like,
		"serves":  serves,
		"refuses": refuses,
		"silent":  silent,
		"holds":   holds,
		"traces":  traces,
		"queue":   queue,
		"cross":   cross,
		"empty":   empty,
		"says":    says,
		"gone":    gone,
		"dead":    dead,
		"grows":   grows,
		"shares":  shares,
		"network": setNetwork,

		"tick":     tick,
		"takes":    takes,
		"finishes": finishes,
		"asked":    asked,
		"unasked":  unasked,
	}
}

// A story is what one script has going on.
type story struct {
	client  *lock.Client
	ledger  *ticks.Ledger
	network *netfault.Proxy

	mu        sync.Mutex
	processes map[string]*process
	runs      map[string]ticks.Run // by job
}

type storyKey struct{}

type process struct {
	cmd            *exec.Cmd
	stdout, stderr harness.Output
	done           chan struct{}
}

func storyOf(ts *testscript.TestScript) *story { return ts.Value(storyKey{}).(*story) }

// end ends what a story has left running.
func (s *story) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (s *story) process(ts *testscript.TestScript, name string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.processes[name]
	if !ok {
		ts.Fatalf("%s was not started", name)
	}
	return p
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "exits CODE PROGRAM ARG...")
	p := launch(ts, args[1:])
	for deadline := time.Now().Add(harness.Patience); p.gaveUp(ts, args[0]) && time.Now().Before(deadline); {
		p = launch(ts, args[1:])
	}
	p.await(ts, args[1], args[0])
}

// gaveUp waits for the end, and returns whether a program has done nothing because ZooKeeper, which is there, did
// not answer in time: on a busy machine somebody runs it once more.
func (p *process) gaveUp(ts *testscript.TestScript, code string) bool {
	select {
	case <-p.done:
	case <-time.After(harness.Patience):
		return false
	}
	return code == "0" && harness.Unanswered(p.cmd.ProcessState.ExitCode(), p.stderr.String())
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "start NAME PROGRAM ARG...")
	s := storyOf(ts)
	p := launch(ts, args[1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[args[0]] = p
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "ends NAME CODE")
	storyOf(ts).process(ts, args[0]).await(ts, args[0], args[1])
}

// launch starts a program that goes on.
func launch(ts *testscript.TestScript, args []string) *process {
	path := args[0]
	if !strings.Contains(path, "/") {
		for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
			if _, err := os.Stat(dir + "/" + path); err == nil {
				path = dir + "/" + path
				break
			}
		}
	}
	p := &process{cmd: exec.Command(path, args[1:]...), done: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = environment(ts)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	// What outlives the program must not keep the test waiting for its output.
	p.cmd.WaitDelay = 10 * time.Second
	ts.Check(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p
}

func environment(ts *testscript.TestScript) []string {
	names := []string{"PATH", "HOME", "TMPDIR", "WORK", "LOCKKEEPER_ZK", "LOCKKEEPER_ROOT", "LOCKKEEPER_CONSOLE", "LOCKKEEPER_ZK_DIGEST_FILE", "PROXY", "METRICS", "TRACEPARENT", "GORACE"}
	env := make([]string, 0, len(names))
	for _, name := range names {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// await waits for the end, and hands the output to the script.
func (p *process) await(ts *testscript.TestScript, name, code string) {
	select {
	case <-p.done:
	case <-time.After(harness.Patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		ts.Fatalf("%s has not ended within %s\n[stdout]\n%s[stderr]\n%s", name, harness.Patience, p.stdout.String(), p.stderr.String())
	}
	_, err := ts.Stdout().Write([]byte(p.stdout.String()))
	ts.Check(err)
	_, err = ts.Stderr().Write([]byte(p.stderr.String()))
	ts.Check(err)
	if got := exitCode(p.cmd.ProcessState); got != code {
		ts.Fatalf("%s exited with %s, not %s\n[stdout]\n%s[stderr]\n%s", name, got, code, p.stdout.String(), p.stderr.String())
	}
}

// exitCode is a number, or the name of the signal that ended the process.
func exitCode(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return strconv.Itoa(state.ExitCode())
}

func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "signal SIGNAL NAME")
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 {
		ts.Fatalf("there is no signal %s", args[0])
	}
	ts.Check(storyOf(ts).process(ts, args[1]).cmd.Process.Signal(sig))
}

func tells(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2 || len(args) == 3, "tells NAME REGEXP [VAR]")
	p := storyOf(ts).process(ts, args[0])
	p.writes(ts, &p.stderr, "tell", args)
}

func prints(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2 || len(args) == 3, "prints NAME REGEXP [VAR]")
	p := storyOf(ts).process(ts, args[0])
	p.writes(ts, &p.stdout, "print", args)
}

func (p *process) isOver() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// writes waits for a line, and keeps what its first group matches.
func (p *process) writes(ts *testscript.TestScript, to *harness.Output, verb string, args []string) {
	like, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	eventually(ts, func() error {
		over := p.isOver() // then it has written all
		text := to.String()
		match := like.FindStringSubmatch(text)
		switch {
		case match == nil && over:
			ts.Fatalf("%s has ended, and did not %s %q:\n[stdout]\n%s[stderr]\n%s", args[0], verb, args[1], p.stdout.String(), p.stderr.String())
		case match == nil:
			return fmt.Errorf("%s does not %s %q:\n%s", args[0], verb, args[1], text)
		}
		if len(args) == 3 {
			ts.Setenv(args[2], match[1])
		}
		return nil
	})
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "until REGEXP PROGRAM ARG...")
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	eventually(ts, func() error {
		_ = ts.Exec(args[1], args[2:]...)
		if text := ts.ReadFile("stdout"); !pattern.MatchString(text) {
			return fmt.Errorf("%s does not print %q:\n%s%s", args[1], args[0], text, ts.ReadFile("stderr"))
		}
		return nil
	})
}

// What differs from one run to the next: times, numbers, IDs, and where lines break. A time has its day with it if it
// is not today's.
var varies = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|s|m|h|d|%)?)+\b|\b[0-9a-f]{24}\b`)

var days = regexp.MustCompile(`\b((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(\d{4}-)?\d{2}-\d{2} (\d{2}:)`)

// A time has no seconds if it is a whole minute.
var clocks = regexp.MustCompile(`\b\d{2}:\d{2}(:\d{2})?\b`)

func like(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "like FILE")
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

func refuses(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 4 || len(args) == 5, "refuses ADDRESS METHOD PATH STATUS [HOST]")
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, args[1], "http://"+args[0]+args[2], strings.NewReader(`{"reason": "to see"}`))
	ts.Check(err)
	request.Header.Set("Content-Type", "application/json")
	if len(args) == 5 {
		request.Host = args[4]
	}
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request)
	ts.Check(err)
	ts.Check(answer.Body.Close())
	if got := strconv.Itoa(answer.StatusCode); got != args[3] {
		ts.Fatalf("%s %s: answered with %s", args[1], args[2], got)
	}
}

func serves(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		usage(ts, false, len(args) == 1, "! serves ADDRESS")
		conn, err := net.Dial("tcp", args[0])
		if err == nil {
			_ = conn.Close()
			ts.Fatalf("somebody listens at %s", args[0])
		}
		return
	}
	usage(ts, neg, len(args) == 3 || len(args) == 4, "serves ADDRESS PATH REGEXP [STATUS]")
	want := http.StatusOK
	if len(args) == 4 {
		var err error
		want, err = strconv.Atoi(args[3])
		ts.Check(err)
	}
	like, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	url := "http://" + args[0] + args[1]
	client := &http.Client{Timeout: harness.Patience}
	defer client.CloseIdleConnections()
	eventually(ts, func() error {
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if response.StatusCode != want || !like.Match(text) {
			return fmt.Errorf("%s is %s, and does not say %q:\n%s", url, response.Status, args[2], text)
		}
		return nil
	})
}

// silent looks once, for what is never there.
func silent(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "silent ADDRESS PATH REGEXP")
	never, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	response, err := http.Get("http://" + args[0] + args[1])
	ts.Check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	ts.Check(err)
	if found := never.Find(text); found != nil || len(text) == 0 {
		ts.Fatalf("%s says %q:\n%s", args[1], found, text)
	}
}

func holds(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "holds OWNER SCOPE")
	eventually(ts, func() error {
		state, err := look(ts, args[1])
		if err != nil {
			return err
		}
		if len(state.Holders) != 1 || state.Holders[0].Owner != args[0] {
			return fmt.Errorf("%s is held by %v", args[1], ownersOf(state.Holders))
		}
		return nil
	})
}

func traces(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "traces SCOPE TRACEPARENT")
	state, err := look(ts, args[0])
	ts.Check(err)
	if len(state.Holders) != 1 || state.Holders[0].Trace != args[1] {
		ts.Fatalf("the holders of %s are %+v", args[0], state.Holders)
	}
}

func cross(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "cross SCOPE SCOPE")
	s := storyOf(ts)
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	ts.Defer(func() {
		cancel()
		waits.Wait()
	})
	grants := make([]*lock.Grant, 2)
	for i, owner := range []string{"left", "right"} {
		l, err := s.client.PriorityLock(args[i])
		ts.Check(err)
		grants[i], err = l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: owner}, Terms: priority.Terms{Priority: 20}})
		ts.Check(err)
	}
	for i, owner := range []string{"left", "right"} {
		l, err := s.client.PriorityLock(args[1-i])
		ts.Check(err)
		waits.Go(func() {
			if grant, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: owner}, Terms: priority.Terms{Priority: 20}, Under: []string{grants[i].ID()}}); err == nil {
				_ = grant.Release(context.Background())
			}
			_ = grants[i].Release(context.Background())
		})
	}
}

func queue(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "queue SCOPE N")
	eventually(ts, func() error {
		state, err := look(ts, args[0])
		if err != nil {
			return err
		}
		if strconv.Itoa(len(state.Waiters)) != args[1] {
			return fmt.Errorf("%v wait for %s", ownersOf(state.Waiters), args[0])
		}
		return nil
	})
}

func empty(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "empty SCOPE")
	state, err := look(ts, args[0])
	ts.Check(err)
	if len(state.Holders)+len(state.Waiters) > 0 {
		ts.Fatalf("%s is held by %v, and %v wait", args[0], ownersOf(state.Holders), ownersOf(state.Waiters))
	}
}

func look(ts *testscript.TestScript, scope string) (lock.State, error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	return storyOf(ts).client.Lock(ctx, scope)
}

func ownersOf(contenders []lock.Contender) []string {
	names := make([]string, len(contenders))
	for i, c := range contenders {
		names[i] = c.Owner
	}
	return names
}

func says(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "says FILE REGEXP")
	like, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	eventually(ts, func() error {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil {
			return err
		}
		if !like.Match(text) {
			return fmt.Errorf("%s does not say %q:\n%s", args[0], args[1], text)
		}
		return nil
	})
}

func gone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "gone FILE")
	eventually(ts, func() error { return runs(ts, args[0]) })
}

func dead(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "dead FILE")
	ts.Check(runs(ts, args[0]))
}

// runs returns an error while the process whose id is in a file runs.
func runs(ts *testscript.TestScript, file string) error {
	pid, err := numberIn(ts, file)
	if err != nil {
		return err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if _, rest, found := bytes.Cut(stat, []byte(") ")); found && rest[0] == 'Z' {
		return nil // it has not been reaped
	}
	return fmt.Errorf("process %d of %s runs: %s", pid, file, stat)
}

func grows(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "grows FILE FILE")
	before, err := numberIn(ts, args[0])
	ts.Check(err)
	after, err := numberIn(ts, args[1])
	ts.Check(err)
	if before >= after {
		ts.Fatalf("%d in %s is not below %d in %s", before, args[0], after, args[1])
	}
}

func numberIn(ts *testscript.TestScript, file string) (int, error) {
	text, err := os.ReadFile(ts.MkAbs(file))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func setNetwork(ts *testscript.TestScript, neg bool, args []string) {
	network := storyOf(ts).network
	states := map[string]func() error{
		"pass":    network.Pass,
		"cut":     network.Cut,
		"swallow": func() error { return network.Blackhole() },
	}
	usage(ts, neg, len(args) == 1 && states[args[0]] != nil, "network pass|cut|swallow")
	ts.Check(states[args[0]]())
}

func usage(ts *testscript.TestScript, neg, ok bool, text string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", text)
	}
}

// eventually waits until try returns nil.
func eventually(ts *testscript.TestScript, try func() error) {
	deadline := time.Now().Add(harness.Patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited %s: %v", harness.Patience, err)
		}
		<-tick.C
	}
}
