package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Scope is something that locks protect, as documented in the file.
type Scope struct {
	// LockDelay is that of all locks of the scope that do not say otherwise; nil: the
	// file does not say.
	LockDelay *time.Duration

	Mode  priority.Mode // exclusive, if the file says so, forbids shared locks
	Name  string
	Owner string // who looks after what the scope protects, for people
}

var scopeShape = shape{
	name:    "a scope",
	example: "write it like cluster/orders: {owner: team-orders}",
	keys: []key{
		by("mode", aMode.kind, "", "exclusive: its locks cannot be shared.", (*reader).scopeMode),
		by(lockDelay, aDuration, "", "How long its lock is not granted after a hold that ended without a release, "+
			"unless the lock of a job says otherwise.", (*reader).scopeDelay),
		to("owner", text("write a name, for people"), "",
			"Who looks after what the scope protects, for people.", func(s *Scope) *string { return &s.Owner }),
	},
	later: []string{"permits", "max_hold", "limits", "hold_at_least", "description"},
}

// scopes reads the documented scopes. Once there is one, jobs can use no
// others: a typing error in a scope would protect nothing.
func (r *reader) readScopes(v value) {
	if !v.exists() {
		return
	}
	entries, ok := r.entries(v, scopeShape.example, v.named)
	if !ok || len(entries) == 0 {
		return
	}
	r.scopes = make(map[string]Scope, len(entries))
	r.exclusive = make(map[string]value)
	for _, e := range entries {
		if !r.scopeName(e.key, e.name) {
			continue
		}
		scope := Scope{Name: e.name}
		r.section(e.value, &scopeShape, &scope)
		r.scopes[e.name] = scope
	}
}

func (r *reader) scopeMode(v value, s *Scope) {
	mode, ok := r.mode(v)
	s.Mode = mode
	if ok && mode == priority.Exclusive {
		r.exclusive[s.Name] = v
	}
}

func (r *reader) scopeDelay(v value, s *Scope) {
	if d, ok := r.term(v, true); ok && !r.refused(v, priority.Terms{LockDelay: d}.Validate()) {
		s.LockDelay = &d
	}
}

func (r *reader) mode(v value) (priority.Mode, bool) {
	const instead = "write exclusive or shared"
	s, ok := r.scalar(v, instead)
	switch {
	case !ok:
		return 0, false
	case s.text == "semaphore":
		r.problem(v, s.text+" mode is not supported by this version of lockkeeper", instead)
		return 0, false
	}
	mode, err := priority.ParseMode(s.text)
	return mode, !r.refused(v, err)
}

// scopeName reports whether a text can be a scope.
func (r *reader) scopeName(v value, name string) bool {
	_, err := lock.EscapeScope(name)
	return !r.refused(v, err)
}

// scope reads the scope of a lock.
func (r *reader) scope(v value) (string, bool) {
	name, ok := r.text(v, "write what the lock protects, for example cluster/orders")
	if !ok || !r.scopeName(v, name) {
		return "", false
	}
	if _, known := r.scopes[name]; r.scopes == nil || known {
		return name, true
	}
	if r.scopeNames == nil {
		r.scopeNames = slices.Sorted(maps.Keys(r.scopes))
	}
	instead := r.suggest.didYouMean(name, r.scopeNames)
	if instead == "" {
		instead = "add it to the section scopes"
	}
	r.missing(v, fmt.Sprintf("unknown scope %s", quote(name)), instead)
	return "", false
}

// fewNames is how many names of what there is a problem has room for.
const fewNames = 8
