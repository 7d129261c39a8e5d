// Package temporalserver is where Temporal's program comes from, of which its
// development server is a part: its module names the version, and `make setup`
// builds it. It is a module of its own: the server must not become a dependency
// of the framework, and nothing is linked with it.
package temporalserver
