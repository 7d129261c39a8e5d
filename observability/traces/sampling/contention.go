package sampling

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/observability/traces"
)

// ContentionSampler returns a sampler that keeps the waits which begin with somebody
// in their way, whatever base says: the spans lock.wait that start with a link of the
// role blocked_by, or with lockkeeper.blockers.total above 0, for the holder may have
// no span to link to. About all other spans base decides, nil: all of those whose
// parent is kept, and all roots.
//
// What is kept is the wait alone: what is above and below it is base's affair. A
// request whose wait is not kept at its beginning has no trace context in ZooKeeper,
// so that those it makes wait do not link to it.
func ContentionSampler(base sdk.Sampler) sdk.Sampler {
	if base == nil {
		base = sdk.ParentBased(sdk.AlwaysSample())
	}
	return contention{base}
}

type contention struct{ base sdk.Sampler }

// ShouldSample is asked at the start of each span.
func (c contention) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	result := c.base.ShouldSample(p)
	if result.Decision != sdk.RecordAndSample && isContended(p) {
		result.Decision = sdk.RecordAndSample
		result.Tracestate = trace.SpanContextFromContext(p.ParentContext).TraceState()
	}
	return result
}

// Description names the sampler, for people.
func (c contention) Description() string {
	return fmt.Sprintf("Contention{%s}", c.base.Description())
}

func isContended(p sdk.SamplingParameters) bool {
	if p.Name != traces.SpanWait {
		return false
	}
	for _, a := range p.Attributes {
		if a.Key == traces.BlockersTotal && a.Value.Type() == attribute.INT64 && a.Value.AsInt64() > 0 {
			return true
		}
	}
	for _, link := range p.Links {
		for _, a := range link.Attributes {
			if a.Key == traces.LinkRole && a.Value.AsString() == traces.RoleBlockedBy {
				return true
			}
		}
	}
	return false
}
