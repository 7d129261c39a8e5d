package contestant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A hall is a house whose locks are in memory, or are none.
type hall struct {
	mu   sync.Mutex
	open bool  // everybody comes in
	err  error // of every acquire
}

func (h *hall) close(context.Context) error { return nil }

func (h *hall) door(context.Context, int, int, Turn) (acquire, error) {
	return func(context.Context) (func(context.Context) error, error) {
		if h.err != nil || h.open {
			return func(context.Context) error { return nil }, h.err
		}
		h.mu.Lock()
		return func(context.Context) error {
			h.mu.Unlock()
			return nil
		}, nil
	}, nil
}

// plays plays a turn again while a busy machine lets nothing come of it.
func plays(t *testing.T, h *hall, turn Turn, enough func(Result) bool) (r Result) {
	t.Helper()
	p := player{house: h}
	for range 100 {
		var err error
		r, err = p.play(t.Context(), turn)
		require.NoError(t, err)
		if enough(r) {
			break
		}
	}
	return r
}

func TestACycleThatEndsInTimeCounts(t *testing.T) {
	turn := Turn{Do: Cycles, Locks: []string{"a", "a"}, Seconds: 0.05, WorkMicros: 1000}
	r := plays(t, &hall{}, turn, func(r Result) bool { return r.Cycles > 0 })
	require.Positive(t, r.Cycles)
	require.LessOrEqual(t, r.Cycles, 50, "1 ms of work each, one after the other")
	require.InDelta(t, 0.05, r.Seconds, 0)
	require.Zero(t, r.Errors)
	require.Positive(t, r.P99Micros)

	turn = Turn{Do: Cycles, Locks: []string{"a"}, Seconds: 0.02, WorkMicros: 100_000}
	r = plays(t, &hall{}, turn, func(r Result) bool { return r.Late > 0 })
	require.Equal(t, 1, r.Late)
	require.Zero(t, r.Cycles)
	require.Zero(t, r.P99Micros)
}

func TestCyclesThatFailAreCountedAndTold(t *testing.T) {
	turn := Turn{Do: Cycles, Locks: []string{"a"}, Seconds: 0.01}
	r := plays(t, &hall{err: errors.New("no way")}, turn, func(r Result) bool { return r.Errors > 0 })
	require.Zero(t, r.Cycles)
	require.Positive(t, r.Errors)
	require.Equal(t, "acquire: no way", r.FirstError)
}

func TestHolderThatIsNotAloneIsSeen(t *testing.T) {
	turn := Turn{Do: Cycles, Locks: []string{"a", "a", "a", "a"}, Seconds: 0.2, WorkMicros: 2000}
	for _, c := range []struct {
		name    string
		open    bool
		permits int
		broken  bool
	}{
		{"a lock", false, 0, false},
		{"no lock", true, 0, true},
		{"four permits for four", true, 4, false},
		{"three permits for four", true, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn.Check, turn.Permits = t.TempDir(), c.permits
			r := plays(t, &hall{open: c.open}, turn, func(r Result) bool { return r.Violations > 0 || !c.broken })
			require.Equal(t, c.broken, r.Violations > 0, "%d violations", r.Violations)
		})
	}
}

func TestAQueueHandsOnAsOftenAsRequested(t *testing.T) {
	p := player{house: &hall{}}
	locks := strings.Split(strings.Repeat("a ", 9)+"a", " ")
	_, err := p.play(t.Context(), Turn{Do: Pass, Count: 1})
	require.ErrorContains(t, err, "there is no queue")
	_, err = p.play(t.Context(), Turn{Do: Queue, Locks: locks, WorkMicros: 1000})
	require.NoError(t, err)
	r, err := p.play(t.Context(), Turn{Do: Pass, Count: 6})
	require.NoError(t, err)
	require.Equal(t, 6, r.Cycles)
	require.GreaterOrEqual(t, r.Seconds, 0.006)
	require.Positive(t, r.P50Micros)
	require.Less(t, r.P50Micros, 1000*r.Seconds*1000)
}

func TestALineIsAnsweredByALine(t *testing.T) {
	server := zktest.RunT(t)
	in := strings.NewReader(strings.Join([]string{
		`{"do":"cycles","locks":["a","b"],"seconds":0.05}`,
		`{"do":"dance"}`,
		`no json`,
		`{"do":"acquire","locks":["a"]}`,
	}, "\n"))
	var out bytes.Buffer
	require.NoError(t, Serve(t.Context(), Options{Kind: "zklock", Servers: []string{server.Addr()}, Session: 10 * time.Second}, in, &out))
	var answers []Result
	for line := range strings.Lines(out.String()) {
		var r Result
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		answers = append(answers, r)
	}
	require.Len(t, answers, 4)
	require.InDelta(t, 0.05, answers[0].Seconds, 0)
	require.Empty(t, answers[0].Error)
	require.Contains(t, answers[1].Error, "dance")
	require.NotEmpty(t, answers[2].Error)
	require.Equal(t, 1, answers[3].Cycles)

	require.ErrorContains(t, Serve(t.Context(), Options{Kind: "unknown"}, in, &out), `there is no contestant "unknown"`)
}

func TestOursPreemptsAndTakesOver(t *testing.T) {
	server := zktest.RunT(t)
	o := Options{Kind: Product, Servers: []string{server.Addr()}, Session: 10 * time.Second}
	p := player{options: o, house: newProduct(o)}
	r, err := p.play(t.Context(), Turn{Do: Preempt, Locks: []string{"a"}, Count: 3, WorkMicros: 1000})
	require.NoError(t, err)
	require.Equal(t, 3, r.Cycles)
	for _, series := range []string{SeriesAsk, SeriesStart, SeriesRead, SeriesWrite} {
		require.Positive(t, r.Series[series].P50Micros, series)
	}
	r, err = p.play(t.Context(), Turn{Do: Takeover, Locks: []string{"b"}, Count: 2})
	require.NoError(t, err)
	require.Positive(t, r.Series[SeriesTakeover].P50Micros)

	p.options.Kind = "zklock"
	_, err = p.play(t.Context(), Turn{Do: Preempt, Locks: []string{"a"}, Count: 1})
	require.ErrorContains(t, err, "zklock cannot preempt")
}
