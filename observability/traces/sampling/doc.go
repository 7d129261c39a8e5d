// Package sampling keeps contention where most traces are not kept.
//
//	provider := sdk.NewTracerProvider(sdk.WithSampler(
//		sampling.ContentionSampler(sdk.ParentBased(sdk.TraceIDRatioBased(0.01)))), …)
//
// It is a package of its own because a sampler belongs to the SDK of OpenTelemetry:
// who only makes spans (package traces) does not link that.
package sampling
