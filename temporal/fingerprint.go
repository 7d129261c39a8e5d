package temporal

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"
)

// fingerprintOf is what a schedule on the server comes to.
func fingerprintOf(s client.Schedule) (string, error) {
	action, ok := s.Action.(*client.ScheduleWorkflowAction)
	if !ok || s.Spec == nil || s.Policy == nil {
		return "", fmt.Errorf("it starts no workflow but a %T", s.Action)
	}
	return fingerprint(*s.Spec, *s.Policy, action)
}

// fingerprint is the same for schedules that do the same, however they are written:
// the server writes some things otherwise than it was told them.
func fingerprint(
	spec client.ScheduleSpec, policy client.SchedulePolicies, action *client.ScheduleWorkflowAction,
) (string, error) {
	zone := spec.TimeZoneName
	if zone == "" {
		zone = "UTC"
	}
	calendars := make([][][]int, 0, len(spec.Calendars))
	for _, c := range spec.Calendars {
		calendars = append(calendars, [][]int{
			unrange(c.Second, 0, 0), unrange(c.Minute, 0, 0), unrange(c.Hour, 0, 0),
			unrange(c.DayOfMonth, 1, 31), unrange(c.Month, 1, 12), unrange(c.DayOfWeek, 0, 6), unrange(c.Year, 1, 0),
		})
	}
	args, err := payloads(action.Args)
	if err != nil {
		return "", err
	}
	memo := make(map[string]string, len(action.Memo))
	for key, value := range action.Memo {
		text, err := payload(value)
		if err != nil {
			return "", err
		}
		memo[key] = text
	}
	text, err := json.Marshal(map[string]any{
		"calendars": calendars, "intervals": append([]client.ScheduleIntervalSpec{}, spec.Intervals...),
		"cron": len(spec.CronExpressions), "skip": len(spec.Skip),
		"start": unix(spec.StartAt), "end": unix(spec.EndAt), "jitter": spec.Jitter, "zone": zone,
		"overlap": policy.Overlap, "catchup": policy.CatchupWindow, "pause_on_failure": policy.PauseOnFailure,
		"id": action.ID, "workflow": action.Workflow, "queue": action.TaskQueue, "args": args, "memo": memo,
		"execution": action.WorkflowExecutionTimeout, "run": action.WorkflowRunTimeout,
		"priority": action.Priority.PriorityKey, "retry": retries(action.RetryPolicy),
	})
	return string(text), err
}

// unrange lists the numbers of ranges; without any, those from low to high.
func unrange(all []client.ScheduleRange, low, high int) []int {
	if len(all) == 0 {
		all = []client.ScheduleRange{{Start: low, End: high}}
	}
	numbers := []int{}
	for _, r := range all {
		for n := r.Start; n <= max(r.Start, r.End) && (r.Start <= r.End || n == r.Start); n += max(1, r.Step) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func retries(p *sdk.RetryPolicy) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(p.InitialInterval, p.BackoffCoefficient, p.MaximumInterval, p.MaximumAttempts)
}

// payloads are values as they travel, or as they have.
func payloads(all []any) ([]string, error) {
	texts := make([]string, len(all))
	for i, v := range all {
		var err error
		if texts[i], err = payload(v); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func payload(v any) (string, error) {
	p, ok := v.(*commonpb.Payload)
	if !ok {
		var err error
		if p, err = converter.GetDefaultDataConverter().ToPayload(v); err != nil {
			return "", err
		}
	}
	return string(p.GetMetadata()[converter.MetadataEncoding]) + " " + string(p.GetData()), nil
}
