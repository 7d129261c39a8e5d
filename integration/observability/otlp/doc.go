// Package otlp receives what programs export by OpenTelemetry's protocol over gRPC, so
// that tests can look at it: whether links lead to spans that have arrived, what the
// tree of a preempted job looks like, and what must not be in it.
package otlp
