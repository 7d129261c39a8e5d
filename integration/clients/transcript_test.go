package clients

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// play runs a client's program on one side and returns its transcript, with an error when it fails. A line that begins
// with "! " asks for trouble; "done" on the program's standard input is the answer.
func play(ctx context.Context, s *side, command []string, dir string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("still running after %s", patience))
	defer cancel()
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Dir = dir
	program.WaitDelay = 5 * time.Second
	var complaints bytes.Buffer
	program.Stderr = &complaints
	stdin, err := program.StdinPipe()
	if err != nil {
		return "", err
	}
	stdout, err := program.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := program.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", command[0], err)
	}
	var transcript strings.Builder
	var refused error
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		line := lines.Text()
		transcript.WriteString(line + "\n")
		kind, asked := strings.CutPrefix(line, "! ")
		if !asked || refused != nil {
			continue
		}
		answer := "done\n"
		if refused = s.trouble(ctx, kind); refused != nil {
			answer = "refused\n"
		}
		if _, err := stdin.Write([]byte(answer)); err != nil && refused == nil {
			refused = err
		}
	}
	if err = program.Wait(); ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if refused != nil {
		err = fmt.Errorf("%w (%w)", refused, err)
	}
	if err != nil {
		return transcript.String(), fmt.Errorf("on %s: %w\nits complaints:\n%s", s.name, err, end(complaints.String()))
	}
	return transcript.String(), nil
}

// end returns the last lines of a text: of many complaints the last tell most.
func end(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-100):], "\n")
}

// playBoth plays on both sides at the same time.
func playBoth(t *testing.T, embedded, genuine *side, command func(*side) []string, dir string) (onEmbedded, onGenuine string) {
	t.Helper()
	var embeddedErr, genuineErr error
	var both sync.WaitGroup
	both.Go(func() { onEmbedded, embeddedErr = play(t.Context(), embedded, command(embedded), dir) })
	both.Go(func() { onGenuine, genuineErr = play(t.Context(), genuine, command(genuine), dir) })
	both.Wait()
	require.NoError(t, genuineErr, "transcript:\n%s", onGenuine)
	require.NoError(t, embeddedErr, "transcript:\n%s", onEmbedded)
	return onEmbedded, onGenuine
}

// requireSame fails unless both transcripts are the one in testdata. With -update that is replaced first.
func requireSame(t *testing.T, name, onEmbedded, onGenuine string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(onGenuine), 0o644))
	}
	expected, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(expected), onGenuine, "the real server against %s", file)
	require.Equal(t, onGenuine, onEmbedded, "the embedded server against the real one")
}

// requireAllPlayed fails when a transcript in testdata belongs to no scenario.
func requireAllPlayed(t *testing.T, client string, names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", client, "*.txt"))
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		found = append(found, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	require.ElementsMatch(t, names, found, "scenarios and transcripts")
}
