package main

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

func TestNothingIsExportedUnlessTheEnvironmentAsks(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want []bool // traces, metrics, logs
	}{
		{"nothing", nil, []bool{false, false, false}},
		{"a collector", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"}, []bool{true, true, true}},
		{"a collector of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4317"}, []bool{true, false, false}},
		{"an exporter", map[string]string{"OTEL_LOGS_EXPORTER": "otlp"}, []bool{false, false, true}},
		{"none", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_METRICS_EXPORTER": "none"}, []bool{true, false, true}},
		{"disabled", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_SDK_DISABLED": "true"}, []bool{false, false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			require.Equal(t, c.want, []bool{isAsked("TRACES"), isAsked("METRICS"), isAsked("LOGS")})
		})
	}
}

func TestSamplersAreThoseOfTheStandardAndKeepContention(t *testing.T) {
	for _, c := range []struct{ name, arg, want, err string }{
		{"", "", "Contention{ParentBased{root:AlwaysOnSampler,remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler,localParentSampled:AlwaysOnSampler,localParentNotSampled:AlwaysOffSampler}}", ""},
		{"always_on", "", "Contention{AlwaysOnSampler}", ""},
		{"always_off", "", "AlwaysOffSampler", ""},
		{"traceidratio", "0.25", "Contention{TraceIDRatioBased{0.25}}", ""},
		{"parentbased_traceidratio", "0.5", "Contention{ParentBased{root:TraceIDRatioBased{0.5},", ""},
		{"parentbased_always_off", "", "Contention{ParentBased{root:AlwaysOffSampler,", ""},
		{"parentbased_traceidratio", "2", "Contention{ParentBased{root:AlwaysOnSampler,", "OTEL_TRACES_SAMPLER_ARG"},
		{"often", "", "Contention{ParentBased{root:AlwaysOnSampler,", `"often" is not known`},
	} {
		sampler, err := samplerOf(c.name, c.arg)
		require.Contains(t, sampler.Description(), c.want, c.name)
		if c.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.err)
		}
	}
}

func TestLinesOfTheLogNameTheirSpanAndAreExported(t *testing.T) {
	var text, exported bytes.Buffer
	flags := loggingFlags{export: slog.NewTextHandler(&exported, &slog.HandlerOptions{Level: slog.LevelDebug})}
	log := flags.logger(&text, slog.LevelInfo, "json").With("daemon", "A")
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	log.InfoContext(ctx, "with")
	log.Info("without")
	log.Debug("below")
	require.Contains(t, text.String(), `"msg":"with","daemon":"A","trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"}`)
	require.Contains(t, text.String(), `"msg":"without","daemon":"A"}`)
	require.Contains(t, exported.String(), "msg=with daemon=A\n", "the bridge has the span of the context")
	require.NotContains(t, text.String()+exported.String(), "below")

	quiet := (&program{logging: flags}).quiet()
	quiet.Info("quietly")
	require.Contains(t, exported.String(), "msg=quietly", "who exports logs need not write them")
}
