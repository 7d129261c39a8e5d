package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
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
			for _, of := range []string{"", "_TRACES", "_METRICS", "_LOGS"} {
				t.Setenv("OTEL_EXPORTER_OTLP"+of+"_ENDPOINT", "")
				t.Setenv("OTEL"+of+"_EXPORTER", "")
			}
			t.Setenv("OTEL_SDK_DISABLED", "")
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

// What is logged while a job waits for its lock, holds it and works has the trace of
// the job; what its work logs itself, the span of the hold.
func TestLinesOfWaitsAndOfWorkNameTheirSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder, out, server := tracetest.NewSpanRecorder(), &sharedText{}, zktest.RunT(t, zktest.Pipe())
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		log := (&loggingFlags{}).logger(out, slog.LevelDebug, "json")
		client, err := lock.NewClient(lock.Config{Servers: []string{server.Addr()}, Dialer: server.Dial})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
		guard, err := lockguard.New(client, append(traces.New(provider).Options(), lockguard.WithObserver(lockguard.LogObserver(log)))...)
		require.NoError(t, err)

		// given one that works, and one that waits for it
		traced := map[string]string{} // the traces of the jobs
		var working sync.WaitGroup
		for _, owner := range []string{"first", "second"} {
			ctx, span := provider.Tracer("test").Start(t.Context(), "job.run")
			traced[owner] = span.SpanContext().TraceID().String()
			working.Go(func() {
				defer span.End()
				err := guard.Do(ctx, lockguard.Requirement{Scope: "town/hall", Owner: owner}, func(ctx context.Context) error {
					log.InfoContext(ctx, "at work", "owner", owner)
					time.Sleep(time.Minute)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second)
		}
		working.Wait()

		// then each line is of the trace of its job
		holds := map[string]string{} // spans of holds, by their traces
		for _, s := range recorder.Ended() {
			if s.Name() == traces.SpanHold {
				holds[s.SpanContext().TraceID().String()] = s.SpanContext().SpanID().String()
			}
		}
		require.Len(t, holds, 2)
		lines := map[string][]string{}
		for text := range strings.Lines(out.String()) {
			var line struct {
				Msg, Owner string
				Trace      string `json:"trace_id"`
				Span       string `json:"span_id"`
			}
			require.NoError(t, json.Unmarshal([]byte(text), &line))
			if line.Owner == "" {
				continue
			}
			require.Equal(t, traced[line.Owner], line.Trace, text)
			require.NotEmpty(t, line.Span, text)
			if line.Msg == "at work" {
				require.Equal(t, holds[line.Trace], line.Span, text)
			}
			lines[line.Owner] = append(lines[line.Owner], line.Msg)
		}
		for _, owner := range []string{"first", "second"} {
			require.Subset(t, lines[owner], []string{"lock requested", "lock acquired", "at work", "lock released"})
		}
		require.Contains(t, lines["second"], "waiting for lock")
	})
}

// sharedText is what several write.
type sharedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sharedText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sharedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
