package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Whatever the text: no panic, and either valid jobs or problems, in order,
// each in one line and inside of the file.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/lockkeeper.yaml", "testdata/wrong.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	for name, text := range hostile(200) {
		if !strings.HasPrefix(name, "exploding") { // too slow to grow anything from
			f.Add(text)
		}
	}
	for _, text := range []string{
		job("schedule: \"@daily\nrun: ['x"), job("<<: [*a, *b]"), job("locks: &l [{<<: *l}]"), job("run: ${A:-b}"),
		"version: 1\njobs:\n  a: &a {run: &r [x], locks: [{scope: s, <<: {priority: 1}}]}\n  b: *a\n---\n...\n",
		"%YAML 1.2\n---\nversion: !!int 1\n", "? |\n  x\n: >\n  y\n", "a: \"\\u0000\\n\"\n", "\ufeffversion: 1\r\n", "a:\rb:\u2028c: @",
		job("run: {temporal: {workflow: W, task_queue: q, args: [[.inf, 0x10, ~]]}}"), job("run: {http: {url: 'http://a', headers: {A: b}}, cleanup: {http: {url: x}}}"),
		job("blackout: [{schedule: 'H H * * *', for: 1h}]\nretry: {max: 1}\non_preempt: requeue"), file(policyDefaults),
		groupOf("weights: {a: 1e400, b: .nan, 1: 1}, pins: {l1: a, l1: b}, locks: 9"), "version: 1\ngroups: [&g {name: a, locks: 2}, *g, {<<: *g, name: b}]\n",
		"\"a\\nb\\e[31m\": 1\njobs: {\"x\\ny\": {schedule: \"a\\nb\"}}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := Parse(fileName, []byte(text), testOptions())
		if err == nil {
			defer cfg.Close()
			for _, job := range cfg.Jobs {
				require.NoError(t, job.Validate())
			}
			for _, group := range cfg.Groups {
				require.NoError(t, group.Validate())
			}
			checkProblems(t, text, cfg.Warnings)
			require.NoError(t, bySchema(t, text))
			return
		}
		var all *Errors
		require.ErrorAs(t, err, &all)
		require.Nil(t, cfg)
		require.NotEmpty(t, all.Problems)
		checkProblems(t, text, all.Problems)
		checkProblems(t, text, all.Warnings)
	})
}

func checkProblems(t *testing.T, text string, problems []Problem) {
	t.Helper()
	lines := 2 + strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
	require.True(t, slices.IsSortedFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	}))
	for _, p := range problems {
		require.Equal(t, fileName, p.File)
		require.NotEmpty(t, p.What)
		require.Positive(t, p.Line, "%s", p)
		require.Positive(t, p.Column, "%s", p)
		require.LessOrEqual(t, p.Line, lines, "%s", p)
		require.NotContains(t, p.String(), "\n")
		require.NotContains(t, p.String(), "\x1b", "what stands in a file must not steer a terminal")
		require.True(t, utf8.ValidString(p.String()))
	}
}

// hostile returns files of about the given size that were made to hurt.
func hostile(size int) map[string]string {
	fill := func(f func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(f(i))
		}
		return b.String()
	}
	same := func(s string) string { return strings.Repeat(s, size/len(s)+1) }
	const head = "version: 1\njobs:\n"
	return map[string]string{
		"one word":        same("a"),
		"brackets":        same("["),
		"mappings":        "a: " + same("{a: "),
		"dashes":          same("- "),
		"items":           same("- \n"),
		"colons":          same("a: "),
		"quotes":          same("\""),
		"quotes in lines": same("a: \"\n"),
		"variables":       "version: " + same("${"),
		"tags":            same("!!a "),
		"comments":        same("# x\n"),
		"one key":         same("a: 1\n"),
		"long key":        "? " + same("x") + "\n: 1\n",
		"stairs":          fill(func(i int) string { return strings.Repeat(" ", i) + "a:\n" }),
		"unknown fields":  fill(func(i int) string { return fmt.Sprintf("versoin%d: 1\n", i) }),
		"jobs": head + fill(func(i int) string {
			return fmt.Sprintf("  j%d: {schedule: '@daily', run: [x], locks: [{scope: s, priority: %d, waiting_timeout: 1s}]}\n", i, i%9999)
		}),
		"wrong jobs": head + fill(func(i int) string {
			return fmt.Sprintf("  j%d: {schdule: x, locks: [{scop: s, priority: class%d}]}\n", i, i)
		}),
		"unknown scopes": "version: 1\nscopes:\n" + fill(func(i int) string { return fmt.Sprintf("  scope%d: {}\n", i) }) + "jobs:\n" + fill(func(i int) string {
			return fmt.Sprintf("  j%d: {schedule: '@daily', run: [x], locks: [{scope: scoop%d}]}\n", i, i)
		}),
		"open brackets":     head + fill(func(i int) string { return fmt.Sprintf("  j%d: [x\n", i) }),
		"syntax errors":     head + fill(func(i int) string { return fmt.Sprintf("  j%d: {a: @x}\n", i) }),
		"chain of merges":   "version: 1\n" + fill(func(i int) string { return fmt.Sprintf("a%d: &a%d {<<: *a%d}\n", i, i, max(i-1, 0)) }) + "jobs: *a1\n",
		"fan of merges":     "version: 1\nx: &x {a: 1}\njobs: {<<: [" + same("*x,") + "]}",
		"merged jobs":       head + "  a: &a\n    run: [x]\n    locks: [{scope: a}]\n" + fill(func(i int) string { return fmt.Sprintf("  j%d: {<<: [*a, *a, *a, *a]}\n", i) }),
		"one long command":  head + "  a:\n    schedule: '@daily'\n    run: &run [x" + same(",x") + "]\n" + fill(func(i int) string { return fmt.Sprintf("  j%d: {schedule: '@daily', run: *run}\n", i) }),
		"exploding aliases": explode("[*a%d, *a%d]", "[x]"),
		"exploding merges":  explode("{<<: [*a%d, *a%d]}", "{a: {}}"),
	}
}

// explode defines values that each stand for two of the one before.
func explode(step, first string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nx0: &a0 %s\n", first)
	const steps = 40
	for i := 1; i < steps; i++ {
		fmt.Fprintf(&b, "x%d: &a%d %s\n", i, i, fmt.Sprintf(step, i-1, i-1))
	}
	fmt.Fprintf(&b, "zookeeper: *a%d\njobs: *a%d\n", steps-1, steps-1)
	return b.String()
}

func TestHostileFilesAreDoneWithQuickly(t *testing.T) {
	const limit = time.Minute // bounds a hang
	size := 64 << 10
	if testing.Short() {
		size = 4 << 10
	}
	for name, text := range hostile(size) {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			_, err := Parse(fileName, []byte(text), testOptions())
			require.Less(t, time.Since(started), limit)
			if err != nil {
				require.Less(t, len(err.Error()), 100_000, "too long to read")
			}
		})
	}
}

func TestLargestFileIsReadAndALargerOneRefused(t *testing.T) {
	const comment = "# more\n"
	text := hostile(100_000)["jobs"]
	if !testing.Short() {
		text += strings.Repeat(comment, (maxSize-len(text))/len(comment))
	}
	require.Greater(t, len(mustParse(t, text).Jobs), 1000)

	_, problems, _ := parse(t, text+strings.Repeat(comment, 10<<20/len(comment)))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "4194304 are the limit; split it over several daemons")
}

func TestManyWarningsDoNotHideAProblem(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	for i := range maxFound + 10 {
		fmt.Fprintf(&b, "  j%d: {schedule: '0 0 1 * 1', run: [x]}\n", i)
	}
	_, problems, warnings := parse(t, b.String()+"  last: {schedule: manual, run: [x], timeout: x}\n")
	require.Len(t, problems, 1)
	require.Len(t, warnings, maxFound)

	if testing.Short() {
		return // as many problems take seconds with the race detector
	}
	_, problems, _ = parse(t, hostile(maxFound * 20)["unknown fields"])
	require.Len(t, problems, maxFound)
}
