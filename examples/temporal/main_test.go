package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var shared testbed.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

// Whatever a run leaves behind is open to the next one.
func TestBasicItRunsOnOtherServersTwice(t *testing.T) {
	t.Parallel()
	zk, service := shared.Server(t), devserver.Start(t, devserver.Settings{})
	for range 2 {
		tells(t, settings{zk: zk.Addr(), temporal: service.Addr()})
	}
}

// tells checks what the example tells, and what has come of it.
func tells(t *testing.T, s settings) {
	t.Helper()
	var out bytes.Buffer
	end, err := show(t.Context(), s, &out)
	t.Logf("\n%s", out.String())
	require.NoError(t, err)
	require.Equal(t, "new", end.store.shard)
	require.Equal(t, batches, end.store.copied)
	require.False(t, end.store.frozen)
	require.Equal(t, 1, end.store.repairs)

	told := regexp.MustCompile(`(?m)^ +\d+\.\d\ds +(\w+) +`).ReplaceAllString(out.String(), "$1 ")
	told = regexp.MustCompile(`token \d+|\d+(\.\d+)?m?s`).ReplaceAllString(told, "N")
	told = regexp.MustCompile(`discards \d+ batches`).ReplaceAllString(told, "discards N batches")
	lines := strings.Split(told, "\n")
	at := 0
	for _, line := range []string{
		"migration freezes the orders, under N",
		"migration copies batch 3 of 5",
		`migration ! stops in the middle of batch 3: lock "cluster/orders" preempted by "repair" (priority 90, forceful), N to clean up`,
		"migration discards N batches, still under the lock", // it copies as long as it does not hear
		"migration lets orders be written again",
		"repair has cluster/orders, N, after N",
		"repair mends the orders: orders on the old shard, 0 batches copied, writes frozen: false, repairs: 1",
		"migration freezes the orders, under N",
		"migration copies batch 5 of 5",
		"migration switches to the new shard",
		"migration lets orders be written again",
		"migration is done: orders on the new shard, 5 batches copied, writes frozen: false, repairs: 1",
	} {
		for at < len(lines) && lines[at] != line {
			at++
		}
		require.Less(t, at, len(lines), "%q is not told, or not after what it follows from:\n%s", line, told)
		at++
	}
}

func TestBasicWebInterfaceIsServedUntilTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := show(ctx, settings{ui: true}, writer)
		_ = writer.Close()
		ended <- err
	}()
	var told bytes.Buffer
	address := regexp.MustCompile(`The workflow: (http://\S+)`)
	part := make([]byte, 1<<10)
	for !address.MatchString(told.String()) || !strings.Contains(told.String(), "Ctrl-C") {
		n, err := reader.Read(part)
		require.NoError(t, err, told.String())
		told.Write(part[:n])
	}
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	page, err := client.Get(address.FindStringSubmatch(told.String())[1])
	require.NoError(t, err)
	text, err := io.ReadAll(page.Body)
	require.NoError(t, page.Body.Close())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Contains(t, string(text), "<html")
	cancel()
	_, _ = io.Copy(io.Discard, reader)
	require.NoError(t, <-ended)
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	var out, problems bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"--zk", "localhost:port"}, &out, &problems))
	require.Contains(t, problems.String(), `"localhost:port"`)
	require.Equal(t, 2, run(t.Context(), []string{"--ui", "--temporal", "localhost:7233"}, &out, &problems))
	require.Equal(t, 2, run(t.Context(), []string{"--keeper"}, &out, &problems))
	require.Empty(t, out.String())
}

func TestStoreRefusesAnOlderToken(t *testing.T) {
	s := newStore()
	require.NoError(t, s.freeze(7, true))
	require.NoError(t, s.copy(lock.Token(8)))
	require.ErrorContains(t, s.copy(7), "token 7 is older than 8")
	require.ErrorContains(t, s.repair(9), "half done")
}
