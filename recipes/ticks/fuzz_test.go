package ticks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode/znodetest"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func FuzzTickRecord(f *testing.F) {
	rec := tickRecord{Format: 1, Job: "backup", Last: time.Unix(1767225600, 0).UTC()}
	rec.Runs = append(rec.Runs, runNote{ID: "r1", Instant: rec.Last, Owner: rec.owner(tickOwner{Ledger: "l", Owner: "o", Host: "h", PID: 1})})
	rec.wait(rec.Last.Add(time.Hour))
	rec.skip("s1", rec.Last, "paused")
	rec.skip("s2", rec.Last.Add(time.Hour), "paused")
	f.Add(rec.encode(), int64(1767225600000))
	rec.finish(0, End{Outcome: Failed, Reason: "exit 1", PauseAfter: 1})
	f.Add(rec.encode(), int64(1767225600000))
	for _, text := range []string{
		"", "\n", "{}\n{}", `{"format":2}`, `{"format":2,"left_out":[{"after":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}]}`, `{"format":2,"left_out":7}`, `{"format":1}` + "\n\n" + `{"who":7,"end":"ran"}` + "\nx", `{"format":1,"last":"9999-12-31T23:59:59Z","waiting":["0000-01-01T00:00:00Z"]}`,
		`{"format":1,"owners":[{"n":-1},{"n":9223372036854775807}],"runs":[{"id":"a","who":9223372036854775807}]}`, `{"format":1,"paused":{"at":-1,"for":9223372036854775807},"counts":{"skipped":null}}`,
	} {
		f.Add([]byte(text), int64(5))
	}
	f.Fuzz(func(t *testing.T, data []byte, written int64) {
		stat := &zkclient.Stat{Mtime: written}
		rec, err := decodeTick(data, stat)
		if err != nil {
			var bad *znode.RecordError
			require.ErrorAs(t, err, &bad)
			require.NotEmpty(t, bad.Error())
			return
		}
		first := rec.encode()
		require.LessOrEqual(t, len(rec.history), maxTickHistory)
		again, err := decodeTick(first, stat)
		require.NoError(t, err, "%s", first)
		require.Equal(t, string(first), string(again.encode()))
		require.True(t, rec.decided().Equal(again.decided()))
		packed, err := unpack(pack(first))
		require.NoError(t, err)
		require.Equal(t, first, packed)

		// as it is shown, and written on
		for i := range rec.Runs {
			rec.publicRun(&rec.Runs[i])
		}
		for i := range rec.history {
			rec.publicEnd(rec.history[i].read())
		}
		rec.Paused.public()
		waiting, runs := len(rec.Waiting), len(rec.Runs)
		at := time.Unix(1767225600, 0)
		there := rec.waits(at)
		rec.wait(at)
		require.True(t, rec.waits(at))
		require.Len(t, rec.Waiting, waiting+map[bool]int{true: 0, false: 1}[there])
		rec.owner(tickOwner{Ledger: "new"})
		if runs > 0 {
			id := rec.Runs[0].ID
			rec.interrupt(0)
			require.Len(t, rec.Runs, runs-1)
			require.Equal(t, id, rec.history.newest().ID)
		}
		_, err = decodeTick(rec.encode(), stat)
		require.NoError(t, err)
	})
}

func FuzzTickRequest(f *testing.F) {
	for _, text := range []string{"", "null", "{}", `{"format":1,"job":"backup","by":"ana","reason":"now","owner":"h:1","host":"h","pid":1}`, `{"format":2,"job":1}`, `{"format":9}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := CheckRequest(data); err != nil {
			znodetest.CheckRefusal(t, data, err)
		}
	})
}
