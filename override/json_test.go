package override_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

func TestJSONIsWhatScriptsExpect(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	o := override.Override{
		ID: "INC-4411", Kind: override.Boost,
		Match: override.Match{
			Scope: "db/*", Job: "nightly-?", Labels: map[string]string{"team": "orders"},
			PriorityBelow: new(priority.Level(80)), PriorityAbove: new(priority.Level(0)),
		},
		Until: time.Date(2026, 11, 22, 15, 0, 0, 0, berlin), By: "ana", Reason: "disk full",
		Priority: new(priority.Emergency), Forceful: new(true),
		WaitingTimeout: new(time.Duration(0)), LeaseTimeout: new(time.Second), CleanupTimeout: new(time.Minute), AcquireTimeout: new(time.Hour),
		Token: 77,
	}
	data, err := json.Marshal(o)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"INC-4411","kind":"boost",
		"match":{"scope":"db/*","job":"nightly-?","labels":{"team":"orders"},"priority_below":80,"priority_above":0},
		"until":"2026-11-22T14:00:00Z","by":"ana","reason":"disk full","priority":"emergency","forceful":true,
		"waiting_timeout_ms":0,"lease_timeout_ms":1000,"cleanup_timeout_ms":60000,"acquire_timeout_ms":3600000,"token":77}`, string(data))

	var again override.Override
	require.NoError(t, json.Unmarshal(data, &again))
	require.True(t, o.Equal(again), "%s\n%s", o, again)
}

func TestJSONOfWhatIsNotGivenIsLeftOut(t *testing.T) {
	data, err := json.Marshal([]override.Override{of(override.Freeze)})
	require.NoError(t, err)
	require.JSONEq(t, `[{"id":"INC-4411","kind":"freeze","match":{},"until":"2026-11-22T14:00:00Z","by":"ana","reason":"disk full"}]`, string(data))
	var again []override.Override
	require.NoError(t, json.Unmarshal(data, &again))
	require.Len(t, again, 1)
	require.True(t, of(override.Freeze).Equal(again[0]))
	require.Nil(t, again[0].Priority)
}

func TestJSONThatIsNotUnderstoodIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                                  "null is none",
		`{"id":"a","shard":1}`:                  `unknown field "shard"`,
		`{"match":{"scope":"a","owner":"b"}}`:   `unknown field "owner"`,
		`{"priority":"urgent"}`:                 `"urgent" is no priority; write a number or "emergency"`,
		`{"priority":2147483648}`:               `2147483648 is no priority`,
		`{"priority":1.5}`:                      `1.5 is no priority`,
		`{"waiting_timeout_ms":-1}`:             `-1 is no timeout; write how many milliseconds`,
		`{"waiting_timeout_ms":"5s"}`:           `"5s" is no timeout`,
		`{"lease_timeout_ms":9223372036854776}`: `is no timeout`,
		`{"until":"14:00"}`:                     `"14:00"`,
		`[]`:                                    `cannot unmarshal array`,
	} {
		var o override.Override
		require.ErrorContains(t, json.Unmarshal([]byte(text), &o), want, text)
	}
}

func TestSummaryIsASentence(t *testing.T) {
	for want, o := range map[string]override.Override{
		"freeze db/* below 80 until 14:00 UTC by ana: disk full (INC-4411)": of(override.Freeze, func(o *override.Override) {
			o.Match = override.Match{Scope: "db/*", PriorityBelow: new(priority.Level(80))}
		}),
		"freeze everything until 14:00 UTC by ana: disk full (INC-4411)": of(override.Freeze),
		"boost db/orders job nightly-* team=orders above 5 to emergency, forceful, waiting 30s until 14:00 UTC by ana: disk full (INC-4411)": of(override.Boost, func(o *override.Override) {
			o.Match = override.Match{Scope: "db/orders", Job: "nightly-*", Labels: map[string]string{"team": "orders"}, PriorityAbove: new(priority.Level(5))}
			o.Priority, o.Forceful, o.WaitingTimeout = new(priority.Emergency), new(true), new(30*time.Second)
		}),
		"cap everything to 10, polite until 14:00 UTC by ana: disk full (INC-4411)":            of(override.Cap, func(o *override.Override) { o.Forceful = new(false) }),
		"extend everything, lease 1h, cleanup 5m until 14:00 UTC by ana: disk full (INC-4411)": of(override.Extend, func(o *override.Override) { o.CleanupTimeout = new(5 * time.Minute) }),
		"hold db/orders until 14:00 UTC by ana: disk full (INC-4411)":                          of(override.Hold),
		"preempt-now db/orders with token 77 until 14:00 UTC by ana: disk full (INC-4411)":     of(override.PreemptNow, func(o *override.Override) { o.Token = 77 }),
		"pause all jobs until 14:00:30 UTC by ana: disk full (INC-4411)":                       of(override.Pause, func(o *override.Override) { o.Until = o.Until.Add(30 * time.Second) }),
		"bypass job j until 2026-11-23 11:00 UTC by ana: disk full (INC-4411)": of(override.Bypass, func(o *override.Override) {
			o.Match, o.Until = override.Match{Job: "j"}, now.Add(23*time.Hour)
		}),
	} {
		require.Equal(t, want, o.Summary(now))
	}
	require.Equal(t, "pause all jobs until 2026-11-22 14:00 UTC by ana: disk full (INC-4411)", of(override.Pause).String())
}
