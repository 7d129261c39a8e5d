package zkclient

import (
	"encoding/json"
	"fmt"
	"log/slog"
)

// Digest is a user of ZooKeeper's digest scheme. However it is written (fmt,
// slog, JSON, YAML), the password is not.
type Digest struct{ User, Password string }

// Redacted stands where a secret is not written.
const Redacted = "[redacted]"

// String returns the user, and that there is a password.
func (d Digest) String() string { return d.User + ":" + Redacted }

// Format writes String, whatever the verb.
func (d Digest) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(d.String())) }

// LogValue returns String.
func (d Digest) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalJSON writes the user, and that there is a password.
func (d Digest) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"user": d.User, "password": Redacted})
}

// MarshalYAML is MarshalJSON for YAML.
func (d Digest) MarshalYAML() (any, error) {
	return map[string]string{"user": d.User, "password": Redacted}, nil
}

var (
	_ fmt.Formatter  = Digest{}
	_ fmt.Stringer   = Digest{}
	_ json.Marshaler = Digest{}
	_ slog.LogValuer = Digest{}
)
