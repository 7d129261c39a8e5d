package config

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// Metrics says where the daemon shows its metrics.
type Metrics struct {
	// Listen is the address, host:port. Port 0 stands for a free one. Empty: it
	// shows none, which is the default.
	Listen string
}

// exampleListen has the port that exporters of OpenTelemetry have.
const exampleListen = "127.0.0.1:9464"

var metricsShape = shape{
	name:    "metrics",
	example: "write it like {listen: " + quote(exampleListen) + "}",
	keys: []key{
		{"listen", aText, "", "The address, host:port, where /metrics, /healthz and /readyz are served, to anybody who can reach it."},
	},
	must:  []string{"listen"},
	later: []string{"otlp", "tls", "auth", "labels", "max_jobs"},
	hints: map[string]string{
		"address": `did you mean "listen"?`, "addr": `did you mean "listen"?`, "host": `write it in listen, host:port`, "port": `write it in listen, host:port`,
		"path": "remove it; the path is /metrics", "enabled": "remove it; listen is enough",
	},
}

func (r *reader) metrics(v value) Metrics {
	o, ok := r.optional(v, metricsShape)
	if !ok {
		return Metrics{}
	}
	listen := o.get("listen")
	if !o.has("listen") {
		r.missing(v, "listen is missing", metricsShape.example)
		return Metrics{}
	}
	instead := "write host:port, for example " + quote(exampleListen)
	address, ok := r.text(listen, instead)
	if !ok {
		return Metrics{}
	}
	if what := whyNoAddress(address); what != "" {
		r.problem(listen, quote(address)+" "+what, instead)
		return Metrics{}
	}
	return Metrics{Listen: address}
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
