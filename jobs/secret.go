package jobs

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// What goes along with a command or a request may be secret: its environment,
// headers and body, a password in its URL. However a work is written (fmt, slog,
// JSON, YAML), these are not.

const hidden = "[redacted]"

// String returns the command, with the names of what it adds to the environment.
func (c *Command) String() string {
	var b strings.Builder
	b.WriteString("command")
	if len(c.Argv) > 0 {
		fmt.Fprintf(&b, " %q and %d arguments", c.Argv[0], len(c.Argv)-1) // which ps shows to all users, and a log keeps
	}
	if names := slices.Concat(variables(c.Env), variables(c.AddEnv)); len(names) > 0 {
		fmt.Fprintf(&b, " with %s", strings.Join(names, ", "))
	}
	return b.String()
}

// Format writes String, whatever the verb.
func (c *Command) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// LogValue returns String.
func (c *Command) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON writes String.
func (c *Command) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// MarshalYAML returns String.
func (c *Command) MarshalYAML() (any, error) { return c.String(), nil }

func variables(env []string) (names []string) {
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name+"="+hidden)
	}
	return names
}

// String returns what is asked for, with the names of the headers.
func (r *HTTP) String() string {
	var b strings.Builder
	where := hidden
	if u, err := url.Parse(r.URL); err == nil {
		where = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	}
	fmt.Fprintf(&b, "%s %s", r.method(), where)
	var names []string
	for name := range sorted(r.Header) {
		names = append(names, name+": "+hidden)
	}
	if len(names) > 0 {
		fmt.Fprintf(&b, " with %s", strings.Join(names, ", "))
	}
	return b.String()
}

// Format writes String, whatever the verb.
func (r *HTTP) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(r.String())) }

// LogValue returns String.
func (r *HTTP) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON writes String.
func (r *HTTP) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

// MarshalYAML returns String.
func (r *HTTP) MarshalYAML() (any, error) { return r.String(), nil }

var (
	_ fmt.Formatter  = (*Command)(nil)
	_ json.Marshaler = (*Command)(nil)
	_ slog.LogValuer = (*Command)(nil)
	_ fmt.Formatter  = (*HTTP)(nil)
	_ json.Marshaler = (*HTTP)(nil)
	_ slog.LogValuer = (*HTTP)(nil)
)
