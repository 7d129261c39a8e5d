package config

import (
	"log/slog"
	"strings"
)

// Log says how the daemon writes its log.
type Log struct {
	Format string     // "text" (default) or "json"
	Level  slog.Level // defaults to info
}

var logLevels = []string{"debug", "info", "warn", "error"}

var logShape = shape{
	name:    "log",
	example: "write it like {format: json, level: info}",
	keys: []key{
		to("format", choice[string]("text", "json"), filled("text"), "For people or for machines.",
			func(l *Log) *string { return &l.Format }),
		to("level", of[slog.Level]{kind: word(logLevels...), read: (*reader).logLevel}, "info",
			"What is too unimportant to be written is left out.", func(l *Log) *slog.Level { return &l.Level }),
	},
	later: []string{"file", "output", "rotate", "source", "sampling"},
}

func (r *reader) logLevel(v value) (level slog.Level, ok bool) {
	word, ok := r.word(v, logLevels...)
	if ok {
		_ = level.UnmarshalText([]byte(strings.ToUpper(word))) // one of the four it knows
	}
	return level, ok
}
