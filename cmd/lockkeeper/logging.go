package main

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// loggingFlags say what is logged, to stderr.
type loggingFlags struct{ level, format choice }

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
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// quiet returns the logger of commands that log only when they are asked to.
func (p *program) quiet() *slog.Logger {
	if !p.logging.on() {
		return slog.New(slog.DiscardHandler)
	}
	return p.logging.logger(p.stderr, slog.LevelInfo, "text")
}
