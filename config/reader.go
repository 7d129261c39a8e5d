package config

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A reader reads the sections of one file, in the order in which they need
// each other.
type reader struct {
	*decoder
	dir  string // where relative files are looked for
	read contents
	// secrets are the files with passwords and keys, of those that were read.
	secrets []string

	works map[string]jobs.Work
	// strategies are those of the program's own.
	strategies []string

	cfg           *Config          // what was read so far
	pushed        bool             // whatever the file says of schedules
	badIdentities bool             // one of those who may do something cannot be read
	prefixes      map[string]value // of ensembles
	zone          string           // of the job that is read
	now           time.Time        // on the ZooKeeper servers, for overrides
	drainFinish   value            // where drain.finish is written
	flow          object           // the last workflow that was read
	client        temporalClient   // of the Temporal server, once a job needs it
	previous      *Config

	session setting[time.Duration]
	// sessionReported: the session timeout does not fit the built-in lease.
	sessionReported bool

	periods map[periodOf]time.Duration // of schedules

	classes map[string]class
	// preemptDelta is by how much a priority must be higher to preempt.
	preemptDelta int
	scopes       map[string]Scope // nil: any scope is fine

	exclusive              map[string]value // where scopes are said to be
	classNames, scopeNames []string         // sorted, once they are needed
}

// A setting is a value and where it comes from.
type setting[T any] struct {
	v     T
	at    value
	given bool   // written in the file, else a default
	bad   bool   // written, but of no use: already reported
	from  string // for a default: what it is, for messages
}

// placed is a setting of whatever type.
type placed interface {
	place() (at value, given bool)
	origin() string
	spoil() // marks it as of no use
}

func (s *setting[T]) place() (value, bool) { return s.at, s.given }

func (s *setting[T]) spoil() { s.bad = true }

// A rank is a priority, and whether it may preempt at all.
type rank struct {
	level         priority.Level
	neverPreempts bool
}

// A class is a named priority.
type class struct {
	rank
	at value // its name
}

func (r *reader) isList(v value) bool {
	return v.exists() && v.node.Kind == yaml.SequenceNode
}

func (r *reader) isScalar(v value) bool {
	return v.exists() && v.node.Kind == yaml.ScalarNode
}

func (r *reader) isMapping(v value) bool {
	return v.exists() && v.node.Kind == yaml.MappingNode
}

func isNumber(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

// refused reports the reasons for which another package refuses a value. It
// reports whether there was one.
func (r *reader) refused(v value, err error) bool {
	for _, e := range unjoin(err) {
		reason := strings.TrimPrefix(e.Error(), "lockkeeper: ")
		if request, ok := errors.AsType[*lock.RequestError](e); ok {
			reason = request.Reason
		}
		what, instead := splitReason(reason)
		r.problem(v, what, instead)
	}
	return err != nil
}

// unjoin returns the errors that were joined to err.
func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, unjoin(e)...)
	}
	return all
}

// refusedField names the field that another package refuses; "" if it does not say.
func refusedField(err error) string {
	if request, ok := errors.AsType[*lock.RequestError](err); ok {
		return request.Field
	}
	return ""
}

// splitReason parts "what is wrong; what to write instead".
func splitReason(reason string) (what, instead string) {
	i := strings.LastIndex(reason, "; ")
	if i < 0 || strings.Count(reason[:i], "(") > strings.Count(reason[:i], ")") {
		return reason, ""
	}
	return reason[:i], reason[i+2:]
}
