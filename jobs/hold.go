package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// environment is what run, and h if it is not nil, add to the environment of a
// command.
func environment(ctx context.Context, run Run, h lockguard.WorkHold) []string {
	var env []string
	add := func(name, value string) {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	add("LOCKKEEPER_JOB", run.Job)
	add("LOCKKEEPER_RUN", run.Attempt)
	if !run.Scheduled.IsZero() {
		add("LOCKKEEPER_SCHEDULED", run.Scheduled.UTC().Format(time.RFC3339Nano))
	}
	add("LOCKKEEPER_CAUSE", CauseWord(run.Cause))
	if h == nil {
		add("TRACEPARENT", lockguard.Traceparent(ctx))
		return env
	}
	info := h.Info()
	env = append(env,
		"LOCKKEEPER_SCOPE="+info.Requirement.Scope,
		"LOCKKEEPER_TOKEN="+info.Token.String(),
		fmt.Sprintf("LOCKKEEPER_PRIORITY=%d", info.Requirement.Priority),
		fmt.Sprintf("LOCKKEEPER_MODE=%s", info.Requirement.Mode),
		"LOCKKEEPER_LEASE_DEADLINE="+info.LeaseDeadline.Format(time.RFC3339),
		"LOCKKEEPER_TOKENS="+tokens(h),
	)
	add("TRACEPARENT", traceOf(ctx, h))
	return env
}

// traceOf is the span that the work belongs to; without tracing, the trace
// context that travels with the request.
func traceOf(ctx context.Context, h lockguard.WorkHold) string {
	if own := lockguard.Traceparent(ctx); own != "" {
		return own
	}
	return h.Trace()
}

// tokens writes the tokens as strings: JSON's numbers are too small for them in
// many languages.
func tokens(h lockguard.WorkHold) string {
	texts := make(map[string]string)
	for scope, token := range h.Tokens() {
		texts[scope] = token.String()
	}
	object, err := json.Marshal(texts)
	if err != nil { // strings can be written
		panic(err)
	}
	return string(object)
}
