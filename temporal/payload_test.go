package temporal

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// anOrder is the shortest requirement. lockguard has the test of a full one.
var anOrder = lockguard.Requirement{Scope: "s"}

const anOrderText = `{"AcquireTimeout":null,"CleanupTimeout":0,"Forceful":false,"Hold":"","Job":"","Labels":null,"LeaseTimeout":0,"LockDelay":0,"Message":"","MinRuntime":0,"Mode":"exclusive","NeverPreempts":false,"Owner":"","PreemptDelta":0,"Priority":0,"Scope":"s","WaitingTimeout":null}`

var (
	aReference = lockguard.Reference{Scope: "s", Hold: "h", ID: "i", Token: 8, Mode: priority.Shared}
	anEvening  = time.Date(2026, 11, 22, 19, 44, 51, 814842795, time.UTC)

	anInterruption = interruption{
		Preemption: Preemption{Reason: PreemptionOutranked, Scope: "s", Token: 8, By: "b", Priority: 9, Forceful: true, Grace: 30 * time.Second, Message: "m"},
		Hold:       "h",
	}
	aQuestion = ApprovalQuestion{
		ID: "w-1", Root: "/r", Scope: "s", Job: "j", Labels: map[string]string{"team": "a"},
		Requestor: aParty, Holders: []ApprovalParty{aParty}, Reason: "r",
		WaitedMS: 1, DeadlineMS: 2, Escalation: []EscalationStep{{AfterMS: 3, To: "on-call"}}, Host: "vm", PID: 7,
	}
	aParty    = ApprovalParty{ID: "i", Owner: "o", Host: "vm", PID: 7, Priority: 9, Token: 8}
	aDecision = ApprovalDecision{Approved: true, Force: true, By: "ana", Reason: "r", Identity: "digest:ana", Person: true, At: anEvening, Until: anEvening}
)

const (
	aReferenceText     = `{"scope":"s","hold":"h","id":"i","token":8,"mode":"shared"}`
	anEveningText      = `"2026-11-22T19:44:51.814842795Z"`
	anInterruptionText = `{"reason":"outranked","scope":"s","token":"8","by":"b","priority":9,"forceful":true,"grace_ns":30000000000,"message":"m","hold":"h"}`
	aPartyText         = `{"id":"i","owner":"o","host":"vm","pid":7,"priority":9,"token":"8"}`
	aQuestionText      = `{"id":"w-1","root":"/r","scope":"s","job":"j","labels":{"team":"a"},"requestor":` + aPartyText + `,"holders":[` + aPartyText +
		`],"reason":"r","waited_ms":1,"deadline_ms":2,"escalation":[{"after_ms":3,"to":"on-call"}],"host":"vm","pid":7}`
	aDecisionText = `{"approved":true,"force":true,"by":"ana","reason":"r","identity":"digest:ana","person":true,"at":` + anEveningText + `,"until":` + anEveningText + `}`
)

// All that goes through Temporal, with each field set, and the bytes that commit 9813b63 has written for it.
var payloadTypes = []struct {
	value any
	text  string
}{
	{holderInput{Name: "n", Requirement: anOrder, Again: true, MaxHold: time.Hour, Adopt: &aReference}, `{"name":"n","requirement":` + anOrderText + `,"again":true,"max_hold_ns":3600000000000,"adopt":` + aReferenceText + `}`},
	{holderDetails{Reference: aReference, Epoch: 5, Told: true, Asked: true, Held: time.Second}, `{"reference":` + aReferenceText + `,"epoch":5,"told":true,"asked":true,"held_ns":1000000000}`},
	{holdSignal{State: stateGranted, Epoch: 5, Reference: aReference, Continued: true, Interruption: &anInterruption}, `{"state":"granted","epoch":5,"reference":` + aReferenceText + `,"continued":true,"interruption":` + anInterruptionText + `}`},
	{releaseInput{Name: "n", Reference: aReference, Requirement: anOrder, Keep: time.Second}, `{"Name":"n","Reference":` + aReferenceText + `,"Requirement":` + anOrderText + `,"Keep":1000000000}`},
	{aReference, aReferenceText}, // the result of ReleaseActivity
	{[]lockguard.Reference{aReference}, `[` + aReferenceText + `]`},
	{[]membership{{Reference: aReference, Cleanup: true}}, `[{"reference":` + aReferenceText + `,"cleanup":true}]`},
	{anInterruption, anInterruptionText},
	{anInterruption.Preemption, strings.Replace(anInterruptionText, `,"hold":"h"`, "", 1)},
	{
		call{Lock: &wireLock{Requirement: anOrder, Also: []lockguard.Requirement{anOrder}, InSlotWait: 1, OnBusy: BusyHybrid + 1, OnPreempted: PreemptedRetry + 1, RetryDelay: 2, SkipResult: json.RawMessage(`{"n":1}`)}, Run: 3},
		`{"lock":{"requirement":` + anOrderText + `,"also":[` + anOrderText + `],"in_slot_wait":1,"on_busy":1,"on_preempted":1,"retry_delay":2,"skip_result":{"n":1}},"run":3}`,
	},
	{slip{Reference: aReference, Since: anEvening, Yields: 4}, `{"reference":` + aReferenceText + `,"since":` + anEveningText + `,"yields":4}`},
	{declaredLocks{Root: "/r", Locks: []lockguard.Requirement{anOrder}}, `{"root":"/r","locks":[` + anOrderText + `]}`},
	{
		Origin{Cause: "c", Job: "j", Run: "r", Scheduled: &anEvening, Scope: "s", Token: 8, Tokens: map[string]string{"s": "8"}, Trace: "t"},
		`{"cause":"c","job":"j","run":"r","scheduled":` + anEveningText + `,"scope":"s","token":"8","tokens":{"s":"8"},"traceparent":"t"}`,
	},
	{scheduleMark{Job: "j", Root: "/r", Set: "x"}, `{"job":"j","root":"/r","set":"x"}`},
	{aQuestion, aQuestionText},
	{ApprovalRuling{By: "ana", Reason: "r", Identity: "digest:ana"}, `{"by":"ana","reason":"r","identity":"digest:ana"}`},
	{aDecision, aDecisionText},
	{[]opstore.Escalated{{At: anEvening, To: "on-call"}}, `[{"at":` + anEveningText + `,"to":"on-call"}]`},
	{
		ApprovalState{Question: aQuestion, Opened: anEvening, Until: anEvening, Askers: []string{"a"}, Escalated: []opstore.Escalated{{At: anEvening, To: "on-call"}}, Decision: &aDecision},
		`{"question":` + aQuestionText + `,"opened":` + anEveningText + `,"until":` + anEveningText + `,"askers":["a"],"escalated":[{"at":` + anEveningText + `,"to":"on-call"}],"decision":` + aDecisionText + `}`,
	},
	{Escalation{Question: aQuestion, To: "on-call", Until: anEvening}, `{"question":` + aQuestionText + `,"to":"on-call","until":` + anEveningText + `}`},
	{asker{Name: "a", Leave: true, Gone: true}, `{"name":"a","leave":true,"gone":true}`},
}

func TestPayloadsAreWrittenAsHistoriesHaveThem(t *testing.T) {
	t.Parallel()
	dc := converter.GetDefaultDataConverter()
	for _, p := range payloadTypes {
		kind := reflect.TypeOf(p.value)
		written, err := dc.ToPayload(p.value)
		require.NoError(t, err)
		require.Equal(t, p.text, string(written.GetData()), kind)

		// and what is read is the same, also beside a member of a later version
		later := strings.Replace(p.text, "{", `{"later":{"x":[1]},`, 1)
		for _, text := range []string{p.text, later} {
			read := reflect.New(kind)
			require.NoError(t, dc.FromPayload(&commonpb.Payload{Metadata: written.GetMetadata(), Data: []byte(text)}, read.Interface()), text)
			require.Equal(t, p.value, read.Elem().Interface(), text)
		}
		requireFull(t, reflect.ValueOf(p.value), kind.String())
	}
}

// requireFull fails for a field that an example leaves out.
func requireFull(t *testing.T, v reflect.Value, at string) {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		requireFull(t, v.Elem(), at)
	case kind == reflect.Slice:
		require.NotZero(t, v.Len(), at)
		requireFull(t, v.Index(0), at)
	case kind == reflect.Struct && isOurs(v.Type()):
		for field, value := range v.Fields() {
			if field.Tag.Get("json") != "-" {
				require.False(t, value.IsZero(), "%s.%s", at, field.Name)
				requireFull(t, value, at+"."+field.Name)
			}
		}
	}
}

// isOurs is true for a struct whose fields say how it is written.
func isOurs(kind reflect.Type) bool {
	return kind.Kind() == reflect.Struct && strings.HasPrefix(kind.PkgPath(), "github.com/lockkeeper/") && !kind.Implements(reflect.TypeFor[json.Marshaler]())
}

// structsOf adds the structs of ours that a type is made of.
func structsOf(kind reflect.Type, all map[string]reflect.Type) {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		structsOf(kind.Elem(), all)
	case reflect.Struct:
		if _, seen := all[kind.Name()]; seen || !isOurs(kind) {
			return
		}
		all[kind.Name()] = kind
		for field := range kind.Fields() {
			structsOf(field.Type, all)
		}
	default:
	}
}

func TestEachFieldOfAPayloadSaysItsNameInJSON(t *testing.T) {
	t.Parallel()
	all := map[string]reflect.Type{}
	for _, p := range payloadTypes {
		structsOf(reflect.TypeOf(p.value), all)
	}
	for _, kind := range all {
		for field := range kind.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case field.Anonymous: // its fields are looked at
			case field.IsExported():
				require.NotEmpty(t, name, "%s.%s has no name in JSON: renaming it would break workflows that run", kind, field.Name)
			default:
				require.Fail(t, "a field does not travel", "%s.%s", kind, field.Name)
			}
		}
	}

	// and payloadTypes has all of them: what activities and workflows are given and return ...
	var handed []reflect.Type
	for _, f := range []any{(*holder).Hold, (*holder).Release, ApprovalWorkflow, EscalateFunc(nil)} {
		signature := reflect.TypeOf(f)
		for in := range signature.Ins() {
			handed = append(handed, in)
		}
		for out := range signature.Outs() {
			handed = append(handed, out)
		}
	}
	for _, kind := range handed {
		if isOurs(kind) {
			require.Contains(t, all, kind.Name())
		}
	}

	// ... and whatever is prepared for JSON
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			declared, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			ast.Inspect(declared.Type, func(n ast.Node) bool {
				if field, ok := n.(*ast.Field); ok && field.Tag != nil && strings.Contains(field.Tag.Value, "json:") {
					require.Contains(t, all, declared.Name.Name, "%s: add an example to payloadTypes", name)
				}
				return true
			})
			return true
		})
	}
}

// The histories were recorded by commit 9813b63 and before: what it has written is read, and written again to the byte.
func TestRecordedPayloadsAreReadAndWrittenAgain(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	require.NoError(t, err)
	met := map[string]bool{}
	for _, name := range files {
		again := func(p *commonpb.Payload, value any) {
			t.Helper()
			require.NotNil(t, p)
			dc := converter.GetDefaultDataConverter()
			require.NoError(t, dc.FromPayload(p, value), name)
			written, err := dc.ToPayload(reflect.ValueOf(value).Elem().Interface())
			require.NoError(t, err)
			require.Equal(t, string(p.GetData()), string(written.GetData()), "%s: %T", name, value)
			met[reflect.TypeOf(value).Elem().String()] = true
		}
		file, err := os.Open(name)
		require.NoError(t, err)
		history, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
		require.NoError(t, err)
		require.NoError(t, file.Close())

		for _, e := range history.GetEvents() {
			again := func(p *commonpb.Payload, value any) {
				if p != nil {
					again(p, value)
				}
			}
			first := func(p *commonpb.Payloads) *commonpb.Payload {
				if len(p.GetPayloads()) == 0 {
					return nil
				}
				return p.GetPayloads()[0]
			}
			details := func(f *failurepb.Failure) {
				again(first(f.GetApplicationFailureInfo().GetDetails()), new(interruption))
			}

			started := e.GetWorkflowExecutionStartedEventAttributes()
			again(started.GetHeader().GetFields()[keptHeader], new([]lockguard.Reference))
			again(started.GetMemo().GetFields()[ApprovalMemoKey], new(ApprovalQuestion))
			if started.GetWorkflowType().GetName() == ApprovalWorkflowType {
				again(first(started.GetInput()), new(ApprovalQuestion))
			}
			scheduled := e.GetActivityTaskScheduledEventAttributes()
			again(scheduled.GetHeader().GetFields()[scopeHeader], new([]membership))
			switch scheduled.GetActivityType().GetName() {
			case HolderActivity:
				again(first(scheduled.GetInput()), new(holderInput))
			case EscalateActivityType:
				again(first(scheduled.GetInput()), new(Escalation))
			}
			switch signal := e.GetWorkflowExecutionSignaledEventAttributes(); {
			case strings.HasPrefix(signal.GetSignalName(), signalPrefix):
				again(first(signal.GetInput()), new(holdSignal))
			case signal.GetSignalName() == askersSignal:
				again(first(signal.GetInput()), new(asker))
			}
			again(first(e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetArgs()), new(ApprovalRuling))
			again(first(e.GetWorkflowExecutionUpdateCompletedEventAttributes().GetOutcome().GetSuccess()), new(ApprovalState))
			if e.GetWorkflowExecutionCompletedEventAttributes().GetResult() != nil {
				again(first(e.GetWorkflowExecutionCompletedEventAttributes().GetResult()), new(ApprovalDecision))
			}
			again(first(e.GetMarkerRecordedEventAttributes().GetDetails()["result"]), new(lockguard.Reference))
			again(e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo().GetFields()[EscalatedMemoKey], new([]opstore.Escalated))
			again(e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetHeader().GetFields()[keptHeader], new([]lockguard.Reference))
			details(e.GetActivityTaskFailedEventAttributes().GetFailure())
			details(e.GetWorkflowExecutionFailedEventAttributes().GetFailure())
		}
	}
	require.Len(t, met, 13, "%v", met)
}
