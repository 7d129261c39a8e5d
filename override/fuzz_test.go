package override_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
)

// Whatever stands in ZooKeeper or in a file of JSON: what is accepted is written
// again as the same override, and what can never be says in which field.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"id":"INC-4411","kind":"boost","match":{"scope":"db/*","job":"nightly-?","labels":{"team":"orders"},"priority_below":80,"priority_above":0},"until":"2026-11-22T14:00:00Z","by":"ana","reason":"disk full","priority":"emergency","forceful":true,"waiting_timeout_ms":0,"token":77}`,
		`{"id":"a","kind":"hold","match":{"scope":"x"},"until":"2026-11-22T14:00:00+01:00","by":"ana","reason":"r","lease_timeout_ms":9223372036854}`,
		`null`, `{}`, `[]`, `{"ID":"a","Kind":"pause","until":"0000-01-01T00:00:00Z"}`, `{"until":"9999-12-31T23:59:59-23:59"}`, `{"priority":-2147483648}`, `{"match":null,"priority":null}`,
		`{"id":"a"}{"id":"b"}`, `{"match":{"labels":{"":""}},"reason":"\u001b[2J\ud800"}`,
	} {
		f.Add([]byte(text))
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte) {
		var o override.Override
		if err := json.Unmarshal(data, &o); err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		written, err := json.Marshal(o)
		require.NoError(t, err)
		var again override.Override
		require.NoError(t, json.Unmarshal(written, &again), "%s", written)
		require.True(t, o.Equal(again), "%s\n%s", o, again)
		rewritten, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(written), string(rewritten))

		require.NotEmpty(t, o.String())
		o.Match.Fits(override.Subject{Scope: "db/orders", Job: "nightly", Labels: map[string]string{"team": "orders"}}, 5)
		err = o.Validate(override.Limits{Now: now, MaxDuration: time.Hour, AllowBypass: true})
		if err != nil {
			require.ErrorAs(t, err, new(*override.FieldError))
			return
		}
		require.True(t, o.Until.After(now))
		require.LessOrEqual(t, o.Until.Sub(now), time.Hour)
	})
}
