package console

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Links are templates of addresses elsewhere; "" for none.
type Links struct {
	// Trace is where a trace is shown: {trace_id} stands for its ID.
	Trace string

	// Temporal is where a workflow is shown: {workflow_id} and {run_id} stand for
	// its IDs.
	Temporal string
}

func (l Links) check() error {
	var problems []error
	for _, t := range []struct{ name, is, must string }{
		{"trace", l.Trace, "{trace_id}"}, {"temporal", l.Temporal, "{workflow_id}"},
	} {
		if t.is == "" {
			continue
		}
		if what := CheckLink(t.is, t.must); what != "" {
			problems = append(problems, fmt.Errorf("console: the link %s %s", t.name, what))
		}
	}
	return errors.Join(problems...)
}

// CheckLink says what is wrong with the template of an address in which must has
// to stand, "" for nothing.
func CheckLink(template, must string) string {
	plain := strings.NewReplacer("{trace_id}", "x", "{workflow_id}", "x", "{run_id}", "x").Replace(template)
	u, err := url.Parse(plain)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return "is no address; write it like https://host/path/" + must
	case !strings.Contains(template, must):
		return "has no " + must + "; write it where the ID belongs"
	case strings.ContainsAny(plain, "{}"):
		return "has something else in braces than {trace_id}, {workflow_id} and {run_id}; take it out"
	}
	return ""
}

// traceURL returns where the trace with this ID is shown, "" when there is none, or
// that is not known.
func (l Links) traceURL(id string) string {
	if l.Trace == "" || id == "" {
		return ""
	}
	return strings.ReplaceAll(l.Trace, "{trace_id}", url.PathEscape(id))
}

// workflowURL returns where a workflow is shown, "" when that is not known.
func (l Links) workflowURL(workflow, run string) string {
	if l.Temporal == "" || workflow == "" {
		return ""
	}
	return strings.NewReplacer("{workflow_id}", url.PathEscape(workflow), "{run_id}", url.PathEscape(run)).Replace(
		l.Temporal)
}

// scopePath returns the page of a lock.
func scopePath(scope string) string { return "/locks/" + escapePath(scope) }

// escapePath writes a name with slashes in it as the rest of a path. Where
// cleaning the path would change the name, the slashes are escaped.
func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == "" || part == "." || part == ".." {
			return strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		}
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}
