package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json, or of go tool test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of what did not compile
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// outcome is what became of one package's tests.
type outcome struct {
	pkg     string
	result  string // pass, fail or skip
	took    time.Duration
	passed  int
	failed  []failure // those within others only: a test that failed for its subtest alone is left out
	skipped []string
}

// failure is a test that failed, or, without a name, a package whose tests could not be built or run to their end.
type failure struct {
	pkg, test string
	output    string
}

// whole is the name under which a package's own output is kept.
const whole = ""

// read follows the events of one command to their end. It hands each package on as soon as its tests have ended. What
// is no event, such as an error of the go command itself, is returned.
func read(from io.Reader, done func(outcome)) (other string, err error) {
	running := make(map[string]*progress)
	builds := make(map[string]*strings.Builder)
	var strays strings.Builder
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			switch {
			case json.Unmarshal(line, &e) != nil || e.Action == "":
				strays.Write(line)
			case e.Action == "build-output":
				if builds[e.ImportPath] == nil {
					builds[e.ImportPath] = &strings.Builder{}
				}
				builds[e.ImportPath].WriteString(e.Output)
			case e.Action == "build-fail":
			default:
				p := running[e.Package]
				if p == nil {
					p = &progress{pkg: e.Package, outputs: make(map[string]*strings.Builder), results: make(map[string]string)}
					running[e.Package] = p
				}
				if p.add(e) {
					done(p.outcome(buildErrors(builds, e.Package)))
					delete(running, e.Package)
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return strays.String(), err
		}
	}
	for _, p := range running { // the command ended before their tests did
		p.results[whole] = "fail"
		p.write(whole, "the run ended before the tests of this package did\n")
		done(p.outcome(""))
	}
	return strays.String(), nil
}

// buildErrors returns why a package's tests were not built: go test names the import path with the package under test
// in brackets.
func buildErrors(builds map[string]*strings.Builder, pkg string) string {
	var text strings.Builder
	for path, out := range builds {
		if path == pkg || strings.HasPrefix(path, pkg+"_test ") || strings.Contains(path, "["+pkg+".test]") ||
			path == pkg+".test" {
			text.WriteString(out.String())
		}
	}
	return text.String()
}

// progress is a package whose tests run.
type progress struct {
	pkg     string
	outputs map[string]*strings.Builder
	results map[string]string // by test
	order   []string          // tests in the order of their ends
	took    time.Duration
}

func (p *progress) write(test, text string) {
	if p.outputs[test] == nil {
		p.outputs[test] = &strings.Builder{}
	}
	p.outputs[test].WriteString(text)
}

// add takes an event and tells whether it was the last one of the package.
func (p *progress) add(e event) (last bool) {
	switch e.Action {
	case "output":
		p.write(e.Test, e.Output)
	case "pass", "fail", "skip":
		p.results[e.Test] = e.Action
		if e.Test == whole {
			p.took = time.Duration(e.Elapsed * float64(time.Second))
			return true
		}
		p.order = append(p.order, e.Test)
	}
	return false
}

// frames are the lines that say where a test begins and ends, not why it failed.
var frames = regexp.MustCompile(`(?m)^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|FAIL|SKIP): ).*\n`)

func (p *progress) outcome(build string) outcome {
	o := outcome{pkg: p.pkg, result: p.results[whole], took: p.took}
	for _, test := range p.order {
		switch p.results[test] {
		case "pass":
			o.passed++
		case "skip":
			o.skipped = append(o.skipped, test)
		case "fail":
			if p.explains(test) {
				o.failed = append(o.failed, failure{p.pkg, test, p.seed() + p.text(test)})
			}
		}
	}
	if o.result == "fail" && (len(o.failed) == 0 || len(p.unfinished()) > 0) {
		o.failed = append(o.failed, failure{p.pkg, whole, build + p.lastWords() + p.text(whole)})
	}
	return o
}

// seed is the line that names the order of the tests, which the program prints before all of them; "" unless shuffled.
func (p *progress) seed() string {
	if line := shuffled.FindString(p.text(whole)); line != "" {
		return line + "\n"
	}
	return ""
}

// unfinished returns the tests that have begun and not ended.
func (p *progress) unfinished() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.outputs)), func(test string) bool {
		return test == whole || p.results[test] != ""
	})
}

// crash is how the report of a crash or a data race begins. It stands in the output of the test that printed
// last, which need not be the one that it happened in.
var crash = regexp.MustCompile(
	`(?m)^(panic: |fatal error: |WARNING: DATA RACE|SIG[A-Z]+: |.*ThreadSanitizer: CHECK failed)`)

// detector is how a test program ends by a mistake of Go 1.26 itself: the timers of a synctest bubble share
// one context of the race detector, which threads that receive from timers' channels use at the same time
// (runtime/time.go, maybeRunChan and unlockAndRun). The detector then finds its own state broken, or crashes.
// Seen once in some twenty runs of a package with many bubbles. It says nothing about what was tested.
var detector = regexp.MustCompile(`ThreadSanitizer: CHECK failed|` +
	`(?m:^SIGSEGV: segmentation violation\nPC=.*\n\s*goroutine 0 .*\n\s*goroutine .*synctest bubble.*\nruntime\.systemstack_switch.*\n.*\nruntime\.\(\*timer\)\.)`)

// findings are what a test may have said of itself before that: a data race, or a failure of testify's.
var findings = regexp.MustCompile(`WARNING: DATA RACE|Error Trace:`)

// undecided tells whether the race detector has ended the test program before anything failed.
func (o outcome) undecided() bool {
	return len(o.failed) == 1 && o.failed[0].test == whole && detector.MatchString(o.failed[0].output) &&
		!findings.MatchString(o.failed[0].output)
}

// lastWords returns why a test program ended before its tests did.
func (p *progress) lastWords() string {
	var text strings.Builder
	for _, test := range slices.Sorted(maps.Keys(p.outputs)) {
		if at := crash.FindStringIndex(p.text(test)); test != whole && p.results[test] != "fail" && at != nil {
			fmt.Fprintf(&text, "printed during %s:\n%s", test, p.text(test)[at[0]:])
		}
	}
	if tests := p.unfinished(); len(tests) > 0 {
		fmt.Fprintf(&text, "tests that did not end: %s\n", strings.Join(tests, ", "))
	}
	for _, test := range p.unfinished() {
		said := frames.ReplaceAllString(p.text(test), "")
		if at := crash.FindStringIndex(said); at != nil {
			said = said[:at[0]]
		}
		if said != "" {
			fmt.Fprintf(&text, "printed before, during %s:\n%s", test, said)
		}
	}
	return text.String()
}

// explains tells whether a failed test says more than that one of its subtests failed.
func (p *progress) explains(test string) bool {
	for _, other := range p.order {
		if p.results[other] == "fail" && strings.HasPrefix(other, test+"/") {
			return strings.TrimSpace(frames.ReplaceAllString(p.text(test), "")) != ""
		}
	}
	return true
}

func (p *progress) text(test string) string {
	if p.outputs[test] == nil {
		return ""
	}
	return p.outputs[test].String()
}
