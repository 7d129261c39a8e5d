package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// surroundings are the settings under which packages are run again and again, in turn.
type surroundings struct {
	processors int
	hogged     bool // a busy loop on each processor
}

func (s surroundings) String() string {
	if s.hogged {
		return fmt.Sprintf("%d processors, hogged", s.processors)
	}
	return fmt.Sprintf("%d processors", s.processors)
}

var rounds = []surroundings{{1, false}, {2, true}, {4, false}, {1, true}, {2, false}, {16, true}}

// tally is how often a test failed, and how.
type tally struct {
	part, pkg, test string
	failed          int
	in              []string
	log, again      string
}

// flaky runs the tests of packages n times, as run does, each time under other surroundings and in another order,
// and prints a table of those that failed. It returns whether none did.
func flaky(ctx context.Context, r *runner, parts []*part, n, atOnce int) bool {
	begin, runs := time.Now(), 0
	tallies := make(map[string]*tally)
	for round := range n {
		s := rounds[round%len(rounds)]
		_, _ = fmt.Fprintf(r.out, "round %d of %d: %s\n", round+1, n, s)
		processors := fmt.Sprintf("-exec=env GOMAXPROCS=%d", s.processors) // of the tests, not of their compiler
		once := &runner{
			root: r.root, logs: filepath.Join(r.logs, fmt.Sprintf("round-%d", round+1)), out: quiet{r.out},
			flags: append(slices.Clone(r.flags), "-shuffle=on", processors),
		}
		stop := func() {}
		if s.hogged {
			stop = hog(runtime.NumCPU())
		}
		once.parts(ctx, parts, atOnce)
		stop()
		if ctx.Err() != nil {
			_, _ = fmt.Fprintf(r.out, "round %d was broken off: what failed in it stands above, and is not counted\n", round+1)
			break
		}
		runs++
		for _, f := range once.failures {
			key := strings.Join([]string{f.part.name, f.pkg, f.test}, " ")
			t := tallies[key]
			if t == nil {
				t = &tally{part: f.part.name, pkg: f.pkg, test: f.title()}
				tallies[key] = t
			}
			t.failed++
			t.in = append(t.in, s.String())
			t.log, t.again = f.log, f.again
		}
	}
	table(r.out, tallies, runs, time.Since(begin))
	return len(tallies) == 0 && ctx.Err() == nil
}

// table prints the tests that failed, those that failed most often first.
func table(out io.Writer, tallies map[string]*tally, runs int, took time.Duration) {
	var list []*tally
	for _, t := range tallies {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *tally) int {
		return cmp.Or(b.failed-a.failed, strings.Compare(a.pkg+a.test, b.pkg+b.test))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(list) > 0 {
		_, _ = fmt.Fprintln(w, "\nfailed\tpart\tpackage\ttest\tunder")
	}
	for _, t := range list {
		_, _ = fmt.Fprintf(w, "%d of %d\t%s\t%s\t%s\t%s\n",
			t.failed, runs, t.part, short(t.pkg), t.test, strings.Join(t.in, "; "))
	}
	_ = w.Flush()
	for _, t := range list {
		_, _ = fmt.Fprintf(out, "\n%s %s\n  all of it: %s\n  again:     %s\n", short(t.pkg), t.test, t.log, t.again)
	}
	_, _ = fmt.Fprintf(out, "\n%d runs, %d tests failed at least once; %s\n", runs, len(list), took.Round(time.Second))
}

// quiet passes on lines about failures alone.
type quiet struct{ io.Writer }

func (q quiet) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "ok") {
		return len(b), nil
	}
	return q.Writer.Write(b)
}

// hog keeps n processors busy until it is stopped.
func hog(n int) (stop func()) {
	var over atomic.Bool
	var loops sync.WaitGroup
	for range n {
		loops.Go(func() {
			for i := 0; !over.Load(); i++ {
				_ = i
			}
		})
	}
	return func() {
		over.Store(true)
		loops.Wait()
	}
}

// partsOf are the parts of the whole suite cut down to packages: directories of the repository, such as
// ./integration/locks. Without packages it is all of them.
func partsOf(packages []string) ([]*part, error) {
	all := append(testParts(), restParts()...)
	if len(packages) == 0 {
		return all, nil
	}
	var dirs []string
	for _, name := range packages {
		dir := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), "./"), "/")
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s is not a package of this repository; write for example PKG=./integration/locks", name)
		}
		dirs = append(dirs, dir)
	}
	var chosen []*part
	for _, p := range all {
		own := *p
		own.packages, own.without = nil, nil
		for _, dir := range dirs {
			if inside, err := filepath.Rel(p.dir, dir); err == nil && p.has(dir) {
				own.packages = append(own.packages, "./"+filepath.ToSlash(inside))
			}
		}
		if len(own.packages) > 0 {
			chosen = append(chosen, &own)
		}
	}
	return chosen, nil
}

// has reports whether the package of a directory is one of the part's.
func (p *part) has(dir string) bool {
	within := func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") })
	}
	if p.dir != "" {
		return within([]string{p.dir})
	}
	another := slices.ContainsFunc(restParts(), func(q *part) bool { // module
		return q.dir != "" && strings.HasPrefix(dir+"/", q.dir+"/")
	})
	return !another && !within(p.without) && slices.ContainsFunc(p.packages, func(pattern string) bool {
		return pattern == "./..." || within([]string{strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/...")})
	})
}
