package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"
)

// loggingFlags say what is logged, to stderr.
type loggingFlags struct {
	level, format choice

	export slog.Handler // gets what is logged as well; nil: logs are not exported
}

func (l *loggingFlags) add(flags *pflag.FlagSet) {
	l.level.of = []string{"debug", "info", "warn", "error"}
	l.format.of = []string{"text", "json"}
	flags.Var(&l.level, "log-level", "log to stderr from this `level` on: "+l.level.list())
	flags.Var(&l.format, "log-format", "`format` of the log: "+l.format.list())
}

// on reports whether a log is asked for.
func (l *loggingFlags) on() bool { return l.level.is != "" }

// logger returns the logger that the flags ask for, else one with the given
// level and format.
func (l *loggingFlags) logger(w io.Writer, level slog.Level, format string) *slog.Logger {
	if l.on() {
		_ = level.UnmarshalText([]byte(l.level.is)) // one of the four it knows
	}
	if l.format.is != "" {
		format = l.format.is
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = unitKeys{slog.NewJSONHandler(w, options)}
	}
	return slog.New(l.exported(correlated{handler}, level))
}

// exported returns a handler that exports as well, from a level on.
func (l *loggingFlags) exported(handler slog.Handler, level slog.Level) slog.Handler {
	if l.export == nil {
		return handler
	}
	return slog.NewMultiHandler(handler, atLeast{l.export, level})
}

// unitKeys is a handler for readers that are programs: to them a duration is
// a number, and its key ends in _ms, as in -o json.
type unitKeys struct{ slog.Handler }

// Handle writes a line.
func (h unitKeys) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		line.AddAttrs(milliseconds(a))
		return true
	})
	return h.Handler.Handle(ctx, line)
}

// WithAttrs returns a handler with these attributes.
func (h unitKeys) WithAttrs(attrs []slog.Attr) slog.Handler {
	return unitKeys{h.Handler.WithAttrs(allMilliseconds(attrs))}
}

// WithGroup returns a handler with a group.
func (h unitKeys) WithGroup(name string) slog.Handler {
	return unitKeys{h.Handler.WithGroup(name)}
}

func milliseconds(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindDuration:
		return slog.Int64(a.Key+"_ms", v.Duration().Milliseconds())
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(allMilliseconds(v.Group())...)}
	default:
		return a
	}
}

func allMilliseconds(attrs []slog.Attr) []slog.Attr {
	all := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		all[i] = milliseconds(a)
	}
	return all
}

// atLeast is a handler that has a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled reports whether the level is high enough, and wanted.
func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

// WithAttrs returns a handler with these attributes.
func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup returns a handler with a group.
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// correlated adds to each line of a log the span that it belongs to.
type correlated struct{ slog.Handler }

// Handle writes a line.
func (h correlated) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with these attributes.
func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler with a group.
func (h correlated) WithGroup(name string) slog.Handler { return correlated{h.Handler.WithGroup(name)} }

// quiet returns the logger of commands that log only when they are asked to.
func (p *program) quiet() *slog.Logger {
	if !p.logging.on() {
		return slog.New(p.logging.exported(slog.DiscardHandler, slog.LevelInfo))
	}
	return p.logging.logger(p.stderr, slog.LevelInfo, "text")
}
