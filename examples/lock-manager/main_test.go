package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// The tests are the program of their participants.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--participant" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// play runs the example on its own server, and returns what it says.
func play(t *testing.T, args ...string) string {
	t.Helper()
	patient := bytes.Replace(sample, []byte("session_timeout: 2s"), []byte("session_timeout: 10s"), 1) // busy machines
	require.NotEqual(t, sample, patient)
	file := filepath.Join(t.TempDir(), "lock-manager.yaml")
	require.NoError(t, os.WriteFile(file, patient, 0o600))
	var out, problems bytes.Buffer
	code := run(t.Context(), append([]string{"-f", file}, args...), strings.NewReader(""), &out, &problems)
	require.Zero(t, code, "%s%s", out.String(), problems.String())
	require.Empty(t, problems.String())
	t.Logf("\n%s", out.String())
	return out.String()
}

// tables returns what comes before, between and after the tables, and how many
// locks each participant has in each of them.
func tables(t *testing.T, out string) (parts []string, counts []map[string]int) {
	t.Helper()
	table := regexp.MustCompile(`(?m)^lockName +acquired By\n(lock-group_\d+ +localhost_\d+\n){12}`)
	for _, text := range table.FindAllString(out, -1) {
		count := map[string]int{}
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) == 2 {
				count[fields[1]]++
			}
		}
		require.Contains(t, text, "lock-group_1  localhost", "in the order of the recipe")
		require.Regexp(t, `(?s)lock-group_1 .*lock-group_10 .*lock-group_11 .*lock-group_2 `, text)
		counts = append(counts, count)
	}
	parts = table.Split(out, -1)
	require.Len(t, counts, 2, out)
	return parts, counts
}

func linesLike(text, like string) int {
	return len(regexp.MustCompile("(?m)"+like).FindAllString(text, -1))
}

func TestFourLocksMoveWhenTheFirstParticipantLeaves(t *testing.T) {
	t.Parallel()
	parts, counts := tables(t, play(t))

	for _, name := range []string{"localhost_12001", "localhost_12002", "localhost_12003"} {
		require.Contains(t, parts[0], "STARTING "+name+"\n")
		require.Contains(t, parts[0], "STARTED "+name+"\n")
	}
	require.Equal(t, map[string]int{"localhost_12001": 4, "localhost_12002": 4, "localhost_12003": 4}, counts[0])

	require.Contains(t, parts[1], "Stopping the first participant\n")
	require.Contains(t, parts[1], "localhost_12001 Interrupted\n")
	require.Equal(t, 4, linesLike(parts[1], `^localhost_12001 releasing lock:lock-group_\d+$`))
	require.Equal(t, 4, linesLike(parts[1], `^localhost_12001 dropping lock:lock-group_\d+$`))
	require.Equal(t, 4, linesLike(parts[1], `^localhost_1200[23] acquired lock:lock-group_\d+$`))
	require.Zero(t, linesLike(parts[1], `^localhost_1200[23] releasing`))

	require.Equal(t, map[string]int{"localhost_12002": 6, "localhost_12003": 6}, counts[1])
	require.Regexp(t, `^4 of 12 locks moved; survivors lost 0; all were held again after [0-9.]+m?s\n$`, parts[2])
}

func TestFourLocksMoveWhenTheFirstParticipantIsKilled(t *testing.T) {
	t.Parallel()
	parts, counts := tables(t, play(t, "--kill"))

	require.Equal(t, map[string]int{"localhost_12001": 4, "localhost_12002": 4, "localhost_12003": 4}, counts[0])
	require.Contains(t, parts[1], "Killing the first participant\n")
	require.Zero(t, linesLike(parts[1], `^localhost_12001 (releasing|dropping)`), "it could not")
	require.Equal(t, 4, linesLike(parts[1], `^localhost_1200[23] acquired lock:lock-group_\d+$`))
	require.Zero(t, linesLike(parts[1], `^localhost_1200[23] releasing`))
	require.Equal(t, map[string]int{"localhost_12002": 6, "localhost_12003": 6}, counts[1])
	require.Contains(t, parts[2], "4 of 12 locks moved; survivors lost 0; ")
}

// The strategy of the recipe that this one is compared with.
func TestModMovesLocksBetweenSurvivors(t *testing.T) {
	t.Parallel()
	parts, counts := tables(t, play(t, "--strategy", "mod"))

	require.Equal(t, map[string]int{"localhost_12002": 6, "localhost_12003": 6}, counts[1])
	require.Contains(t, parts[2], "8 of 12 locks moved; survivors lost 4; ")
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"no such file or directory":                      {"-f", "nothing.yaml"},
		`unknown strategy "fair"; write one of balanced`: {"--strategy", "fair"},
		"names no group with two participants or more":   {"-f", write(t, "version: 1\ngroups: [{name: a, locks: 2}]\n")},
		"3:9 groups: the list is empty":                  {"-f", write(t, "version: 1\n\ngroups: []\n")},
	} {
		var out, problems bytes.Buffer
		require.Equal(t, 1, run(t.Context(), args, strings.NewReader(""), &out, &problems), want)
		require.Contains(t, problems.String(), want)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := t.TempDir() + "/f.yaml"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestItRunsOnAnotherServerTwice(t *testing.T) {
	zk := zkserver.Start(t)
	t.Setenv("LOCKKEEPER_ZK", zk.Connect())
	t.Setenv("LOCKKEEPER_ROOT", "/example")
	for range 2 { // what the first run left does not matter
		_, counts := tables(t, play(t))
		require.Equal(t, map[string]int{"localhost_12001": 4, "localhost_12002": 4, "localhost_12003": 4}, counts[0])
		require.Equal(t, map[string]int{"localhost_12002": 6, "localhost_12003": 6}, counts[1])
	}
}
