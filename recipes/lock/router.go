package lock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Router spreads scopes over several ensembles of ZooKeeper servers, or over
// several roots of one, by their prefixes: each lock lies on one of them, and the
// locks of one go on while another one is away. It has no state of its own: every
// process of the cluster must route alike, because two that look for a lock on two
// ensembles do not exclude each other.
//
// Locks alone are routed. What a cluster has once is on the home ensemble: the tick
// ledger, overrides, approvals, audit and emergencies, groups and the classic
// recipes, each by the methods of Home.
//
// Tokens of different ensembles cannot be compared. When a prefix moves to
// another ensemble, the tokens of its scopes begin anew, maybe below those that
// were given: stop all clients, and reset every resource that checks tokens.
type Router struct {
	home   *Client
	routes []route // the longest prefix first
	all    []*Client
}

type route struct {
	prefix string
	client *Client
}

// NewRouter returns a Router. prefixes says which client has the scopes of a prefix,
// of whole segments: those of "cluster/eu" are "cluster/eu" itself and
// "cluster/eu/orders", but not "cluster/europe". The longest prefix wins; scopes with
// none are of home. A client may stand there several times. It returns
// *RequestError values, joined, for prefixes that are no scopes, and for nil clients.
// The clients are the caller's to close.
func NewRouter(home *Client, prefixes map[string]*Client) (*Router, error) {
	var problems []error
	if home == nil {
		problems = append(problems,
			&zkclient.RequestError{Field: "home", Reason: "is nil; give the client of the scopes that have no prefix"})
	}
	r := &Router{home: home, all: []*Client{home}}
	for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
		client := prefixes[prefix]
		if err := CheckPrefix(prefix); err != nil {
			problems = append(problems, err)
		}
		if client == nil {
			problems = append(problems, &zkclient.RequestError{
				Field: "prefixes", Reason: fmt.Sprintf("the client of %q is nil; give one, or leave the prefix out", prefix),
			})
		}
		r.routes = append(r.routes, route{prefix, client})
		if !slices.Contains(r.all, client) {
			r.all = append(r.all, client)
		}
	}
	slices.SortStableFunc(r.routes, func(a, b route) int { return len(b.prefix) - len(a.prefix) })
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return r, nil
}

// CheckPrefix returns a *RequestError for what cannot be the prefix of a Router: it
// has to be a scope.
func CheckPrefix(prefix string) error {
	_, err := znode.EscapeScope(prefix)
	if wrong, ok := errors.AsType[*zkclient.RequestError](err); ok {
		return &zkclient.RequestError{Field: "prefixes", Reason: wrong.Reason}
	}
	return err
}

// HasPrefix reports whether a scope is one of those of a prefix, see NewRouter.
func HasPrefix(scope, prefix string) bool {
	rest, ok := strings.CutPrefix(scope, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// Home returns the client of everything that is not routed, and of the scopes
// without a prefix.
func (r *Router) Home() *Client { return r.home }

// Clients returns all clients, each once, that of Home first.
func (r *Router) Clients() []*Client { return slices.Clone(r.all) }

// Route returns the client that has the lock of a scope, and the prefix that says
// so: "" for Home.
func (r *Router) Route(scope string) (client *Client, prefix string) {
	for _, route := range r.routes {
		if HasPrefix(scope, route.prefix) {
			return route.client, route.prefix
		}
	}
	return r.home, ""
}

// PriorityLock is Client.PriorityLock of the client that has the lock.
func (r *Router) PriorityLock(scope string) (*PriorityLock, error) {
	client, _ := r.Route(scope)
	return client.PriorityLock(scope)
}
