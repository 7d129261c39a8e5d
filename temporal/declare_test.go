package temporal

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

func TestLockValidateTellsAllAtOnce(t *testing.T) {
	lock := Lock{
		Requirement: lockguard.Requirement{Scope: "cluster/{{.ID", Terms: priority.Terms{CleanupTimeout: -time.Second}},
		Also:        []lockguard.Requirement{{Scope: "a//b", Hold: "h"}},
		Cleanup:     func(context.Context) error { return nil },
		InSlotWait:  time.Second,
		OnBusy:      BusyRetry,
		OnPreempted: 9,
		RetryDelay:  -1,
		SkipResult:  "skipped",
	}
	err := lock.Validate()
	for _, says := range []string{
		`lockkeeper: scope: "cluster/{{.ID" is no template: `,
		`lockkeeper: cleanup_timeout: -1s is negative`,
		`lockkeeper: also[0].cleanup_timeout: is not set, so the cleanup would have no time to run`,
		`lockkeeper: also[0].hold: "h": the plugin gives each hold an id of its own`,
		`lockkeeper: in_slot_wait: has a meaning for hybrid alone, not for retry`,
		`lockkeeper: on_preempted: Preempted(9) is unknown; write retry, fail or cooperate`,
		`lockkeeper: retry_delay: -1ns is negative`,
		`lockkeeper: skip_result: has a meaning for skip alone, not for retry`,
	} {
		require.ErrorContains(t, err, says)
	}
	require.Contains(t, err.Error(), "a//b")

	require.ErrorContains(t, Lock{Requirement: lockguard.Requirement{Scope: "s"}, OnBusy: 9}.Validate(), "on_busy: Busy(9) is unknown")
	require.ErrorContains(t, Lock{Requirement: lockguard.Requirement{Scope: "s", Terms: priority.Terms{AcquireTimeout: new(time.Second)}}, OnBusy: BusySkip}.Validate(), "acquire_timeout: 1s has no meaning for skip")
	require.ErrorContains(t, Lock{Requirement: lockguard.Requirement{Scope: "s"}, InSlotWait: -1}.Validate(), "in_slot_wait: -1ns is negative")
	require.NoError(t, Lock{Requirement: lockguard.Requirement{Scope: "s/{{.ID}}"}}.Validate())
}

func TestScopeIsMadeOfTheArguments(t *testing.T) {
	type order struct {
		ID   string
		Tags map[string]string
	}
	some := arguments{args: []any{order{ID: "o-1", Tags: map[string]string{"zone": "eu"}}, 7, &order{ID: "o-2"}, map[string]any{"id": 1e6}}, workflowID: "w"}
	for text, want := range map[string]string{
		"plain/scope":                      "plain/scope",
		"order/{{.ID}}":                    "order/o-1",
		"zone/{{.Tags.zone}}/{{arg 1}}":    "zone/eu/7",
		"order/{{(arg 2).ID}}":             "order/o-2",
		"of/{{workflowID}}/{{(arg 0).ID}}": "of/w/o-1",

		// numbers of JSON without a type of their own
		"order/{{(arg 3).id}}":               "order/1e+06",
		`order/{{printf "%.0f" (arg 3).id}}`: "order/1000000",
	} {
		got, err := requirementsOf(text, some)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, says := range map[string]string{
		"order/{{.Nothing}}":    "can't evaluate field Nothing",
		"order/{{.Tags.other}}": `map has no entry for key "other"`,
		"order/{{arg 4}}":       "there is no argument 4: the activity has 4, counted from 0",
		"order/{{arg -1}}":      "there is no argument -1",
	} {
		_, err := requirementsOf(text, some)
		require.ErrorContains(t, err, says)
	}
	for text, says := range map[string]string{
		"order/{{.}}":          "an argument is missing",
		"order/{{arg 0}}":      "there is no argument 0",
		"of/{{workflowID}}":    "the activity has no workflow",
		"{{if false}}a{{end}}": `became ""`,
	} {
		_, err := requirementsOf(text, arguments{})
		require.ErrorContains(t, err, says)
	}
	_, err := requirementsOf("a/{{.}}", arguments{args: []any{"x//y"}})
	require.ErrorContains(t, err, `scope "a/{{.}}" became "a/x//y"`)
	_, err = requirementsOf("a/{{.}}", arguments{args: []any{strings.Repeat("x", 300)}})
	require.Error(t, err)
}

// requirementsOf returns the scope that a template becomes.
func requirementsOf(scope string, args arguments) (string, error) {
	c, err := Lock{Requirement: lockguard.Requirement{Scope: scope}}.compile()
	if err != nil {
		return "", err
	}
	r, err := c.of(args)
	if err != nil {
		return "", err
	}
	return r[0].Scope, nil
}

// orders are activities that say themselves which locks they need.
type orders struct{ locks map[string]Lock }

func (o *orders) Migrate(context.Context) error { return nil }
func (o *orders) Check(context.Context) error   { return nil }
func (o *orders) Locks() map[string]Lock        { return o.locks }

func aLock(scope string) Lock { return Lock{Requirement: lockguard.Requirement{Scope: scope}} }

func TestActivityStructSaysWhichLocksItNeeds(t *testing.T) {
	p := &Plugin{}
	h := newHost(p, "", "")
	require.NoError(t, Declare("pre_Check", aLock("of/declare"))(p))
	h.ask(&orders{locks: map[string]Lock{"Migrate": aLock("of/method"), "pre_Check": aLock("of/type")}}, activity.RegisterOptions{Name: "pre_", SkipInvalidStructFunctions: true})
	require.Equal(t, "of/method", h.lockOf("pre_Migrate").Scope)
	require.Equal(t, "of/declare", h.lockOf("pre_Check").Scope, "Declare goes before")
	require.Nil(t, h.lockOf("Migrate"))
	h.ask(func(context.Context) error { return nil }, activity.RegisterOptions{})

	// registered again, by another worker
	h.ask(&orders{locks: map[string]Lock{"Migrate": aLock("of/method")}}, activity.RegisterOptions{Name: "pre_", SkipInvalidStructFunctions: true})

	require.PanicsWithError(t, "temporal: *temporal.orders declares a lock for Migrat, which is none of its activities: Check, Migrate", func() {
		h.ask(&orders{locks: map[string]Lock{"Migrat": aLock("s")}}, activity.RegisterOptions{SkipInvalidStructFunctions: true})
	})
	require.Panics(t, func() {
		h.ask(&orders{locks: map[string]Lock{"Migrate": aLock("{{")}}, activity.RegisterOptions{SkipInvalidStructFunctions: true})
	})
	require.PanicsWithError(t, "temporal: *temporal.orders says with Locks which locks its activities need, which is no activity itself: register it with activity.RegisterOptions{SkipInvalidStructFunctions: true}", func() {
		h.ask(&orders{}, activity.RegisterOptions{})
	})
}

func TestActivityTypeIsDeclaredOnce(t *testing.T) {
	p := &Plugin{}
	require.NoError(t, Declare("migrate", aLock("a"))(p))
	require.EqualError(t, Declare("migrate", aLock("b"))(p), "temporal: activity migrate is declared twice; declare it once, with Also for more locks")
	require.ErrorContains(t, Declare("", aLock("b"))(p), "the activity type is empty")
	require.ErrorContains(t, Declare("other", aLock("{{"))(p), "temporal: the lock of activity other cannot be: ")
}

func TestLockTravelsInAHeader(t *testing.T) {
	lock := Lock{
		Requirement: lockguard.Requirement{Scope: "s/{{.}}", Terms: priority.Terms{Priority: 3, CleanupTimeout: time.Second, AcquireTimeout: new(time.Minute)}},
		Also:        []lockguard.Requirement{{Scope: "t"}},
		OnBusy:      BusyRetry, OnPreempted: PreemptedFail, RetryDelay: time.Second,
	}
	require.Equal(t, lock, sent(t, lock))

	skip := Lock{Requirement: lockguard.Requirement{Scope: "s"}, OnBusy: BusySkip, SkipResult: map[string]int{"n": 1}}
	require.JSONEq(t, `{"n":1}`, string(sent(t, skip).SkipResult.(json.RawMessage)))

	_, err := Lock{Cleanup: func(context.Context) error { return nil }}.wire()
	require.ErrorContains(t, err, "a cleanup hook cannot travel with a call")
	_, err = Lock{SkipResult: func() {}}.wire()
	require.ErrorContains(t, err, "skip_result cannot be written as JSON")
}

// sent returns what comes out of the header that a lock was put in.
func sent(t *testing.T, lock Lock) Lock {
	t.Helper()
	wire, err := lock.wire()
	require.NoError(t, err)
	header := make(map[string]*commonpb.Payload)
	require.NoError(t, call{Lock: wire, Run: time.Minute}.write(header))
	got, err := readCall(header)
	require.NoError(t, err)
	require.Equal(t, time.Minute, got.Run)
	return got.Lock.lock()
}

func TestHeaderThatSaysNothingIsNotWritten(t *testing.T) {
	header := make(map[string]*commonpb.Payload)
	require.NoError(t, call{}.write(header))
	require.Empty(t, header)
	got, err := readCall(header)
	require.NoError(t, err)
	require.Zero(t, got)
	_, err = readCall(map[string]*commonpb.Payload{headerLock: {Data: []byte("{")}})
	require.ErrorContains(t, err, "the header lockkeeper-lock cannot be read")
}

// What a lock is counted under is what was written, never what became of it.
func TestClassOfALockIsItsTemplate(t *testing.T) {
	lock := Lock{
		Requirement: lockguard.Requirement{Scope: "tenant/{{arg 0}}/billing"},
		Also:        []lockguard.Requirement{{Scope: "ledger"}, {Scope: "user/{{arg 1}}", Class: "user/{id}"}, {Scope: "x" + strings.Repeat("{{/* long */}}", 20)}},
	}
	c, err := lock.compile()
	require.NoError(t, err)
	requirements, err := c.of(arguments{args: []any{"acme", "ada"}})
	require.NoError(t, err)
	var classes []string
	for _, r := range requirements {
		classes = append(classes, r.Class)
	}
	require.Equal(t, []string{"tenant/{{arg 0}}/billing", "ledger", "user/{id}", ""}, classes)
	require.Equal(t, "tenant/acme/billing", requirements[0].Scope)
	require.Empty(t, lock.Also[0].Class, "the declaration is as it was")
}

// Daemons with and without classes want the same of a schedule.
func TestClassThatIsTheScopeDoesNotTravelWithASchedule(t *testing.T) {
	locks := []lockguard.Requirement{{Scope: "a", Class: "a"}, {Scope: "tenant/7", Class: "tenant/{id}"}}
	text, err := json.Marshal(withoutClass(locks))
	require.NoError(t, err)
	require.NotContains(t, string(text), `"Class":"a"`)
	require.Contains(t, string(text), `"Class":"tenant/{id}"`)
	require.Equal(t, "a", locks[0].Class)
}
