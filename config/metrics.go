package config

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Metrics says where the daemon shows its metrics.
type Metrics struct {
	// Listen is the address, host:port. Port 0 stands for a free one. Empty: it
	// shows none, which is the default.
	Listen string
}

// LoadMetrics reads the section metrics of a file, whatever else is wrong with the
// file: a daemon goes on with what it has read before. The error is an *Errors, with all that
// prevents that the section is read.
func LoadMetrics(name string, opts Options) (Metrics, error) {
	data, err := readFile(name)
	if err != nil {
		return Metrics{}, &Errors{Problems: []Problem{unreadFile(name, err)}}
	}
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	src := readSource(data)
	r := &reader{decoder: newDecoder(src, opts.Env), dir: filepath.Dir(name), read: contents{}}
	var m Metrics
	if src.root != nil {
		if o, ok := r.object(r.use(src.root, "", value{}), &fileShape); ok {
			r.section(o.get("metrics"), &metricsShape, &m)
		}
	}
	if m.Listen != "" {
		return m, nil
	}
	problems, _ := r.collect(name)
	for _, p := range src.problems {
		p.File = name
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		sortProblems(problems)
		return Metrics{}, &Errors{Problems: problems}
	}
	return m, nil
}

// exampleListen has the port that exporters of OpenTelemetry have.
const exampleListen = "127.0.0.1:9464"

var metricsShape = shape{
	name:    "metrics",
	example: "write it like {listen: " + quote(exampleListen) + "}",
	keys: []key{
		needed(to("listen", address(exampleListen), "",
			"The address, host:port, where /metrics, /healthz and /readyz are served, without sign-in.",
			func(m *Metrics) *string { return &m.Listen })),
	},
	later: []string{"otlp", "tls", "auth", "labels", "max_jobs"},
	hints: map[string]string{
		"address": `did you mean "listen"?`, "addr": `did you mean "listen"?`, "host": `write it in listen, host:port`,
		"port": `write it in listen, host:port`,
		"path": "remove it; the path is /metrics", "enabled": "remove it; listen is enough",
	},
}

// address is where something listens.
func address(example string) of[string] {
	instead := "write host:port, for example " + quote(example)
	return of[string]{kind: aText, read: func(r *reader, v value) (string, bool) {
		address, ok := r.text(v, instead)
		if !ok {
			return "", false
		}
		if what := whyNoAddress(address); what != "" {
			r.problem(v, quote(address)+" "+what, instead)
			return "", false
		}
		return address, true
	}}
}

// whyNoAddress returns "" for host:port, where the host may be missing.
func whyNoAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if e, ok := errors.AsType[*net.AddrError](err); ok {
		return "is not an address: " + e.Err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "is not an address: the port is not a number from 0 to 65535"
	}
	if strings.ContainsAny(host, "/ \t") {
		return "is not an address: the host cannot be " + quote(host)
	}
	return ""
}
