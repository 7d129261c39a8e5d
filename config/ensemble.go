package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An Ensemble has the locks of some scopes, in place of the one that Config.Client
// reaches. See lock.Router.
type Ensemble struct {
	Chroot   string
	Name     string   // of the file, for people
	Prefixes []string // of its scopes, at least one
	Root     string   // empty: that of Config.Client
	Servers  []string
}

// Client says how to reach the ensemble: everything but servers, chroot and root is
// as at home.
func (e Ensemble) Client(home lock.Config) lock.Config {
	home.Servers, home.Chroot = slices.Clone(e.Servers), e.Chroot
	if e.Root != "" {
		home.Root = e.Root
	}
	return home
}

// EnsembleOf returns the one of Ensembles that has the lock of a scope; nil: it is on
// the one that Client reaches.
func (c *Config) EnsembleOf(scope string) *Ensemble { return ensembleOf(c.Ensembles, scope) }

func ensembleOf(all []Ensemble, scope string) (found *Ensemble) {
	longest := 0
	for i := range all {
		for _, prefix := range all[i].Prefixes {
			if lock.HasPrefix(scope, prefix) && len(prefix) > longest {
				found, longest = &all[i], len(prefix)
			}
		}
	}
	return found
}

const ensembleExample = "write it like eu: {servers: [zk-eu1:2181, zk-eu2:2181], prefixes: [cluster/eu]}"

var ensembleShape = shape{
	name:    "an ensemble",
	example: ensembleExample,
	keys: []key{
		needed(by("servers", oneOf(aText, someOf(aText)), "", "Its servers, written like zookeeper.servers.",
			func(r *reader, v value, e *Ensemble) { e.Servers, e.Chroot = r.servers(v) })),
		needed(to("prefixes", of[[]string]{kind: someOf(aText), read: (*reader).readPrefixes}, "",
			"Which scopes have their locks there: whole segments, so that cluster/eu has cluster/eu/orders and not "+
				"cluster/europe. The longest prefix of all ensembles wins.", func(e *Ensemble) *[]string { return &e.Prefixes })),
		to("root", aRoot, "", "The node that everything lives under there; without it, that of zookeeper.",
			func(e *Ensemble) *string { return &e.Root }),
	},
	hints: map[string]string{
		"prefix": `did you mean "prefixes"?`, "scopes": `did you mean "prefixes"?`, "hosts": `did you mean "servers"?`,
		"connect": `did you mean "servers"?`,
		"chroot":  `write it behind the servers: "zk1:2181,zk2:2181/chroot"`,
		"auth":    "all ensembles have that of zookeeper", "tls": "all ensembles have that of zookeeper",
		"session_timeout": "all ensembles have that of zookeeper",
		"operators":       "all ensembles have those of zookeeper", "contenders": "all ensembles have those of zookeeper",
		"readers": "all ensembles have those of zookeeper",
	},
}

// readEnsembles reads where scopes are whose locks are elsewhere, in the order of
// their names.
func (r *reader) readEnsembles(v value, c *Config) {
	entries, _ := r.entries(v, ensembleExample, v.named)
	r.prefixes = make(map[string]value)
	for _, e := range entries {
		ensemble := Ensemble{Name: e.name}
		if _, ok := r.section(e.value, &ensembleShape, &ensemble); ok {
			c.Ensembles = append(c.Ensembles, ensemble)
		}
	}
	slices.SortFunc(c.Ensembles, func(a, b Ensemble) int { return strings.Compare(a.Name, b.Name) })
}

func (r *reader) readPrefixes(v value) ([]string, bool) {
	const instead = "write a list of them, for example [cluster/eu]"
	if r.isList(v) && len(v.node.Content) == 0 {
		r.problem(v, "the list is empty", instead)
	}
	return r.texts(v, instead, func(r *reader, item value, prefix string) bool {
		if r.refused(item, lock.CheckPrefix(prefix)) {
			return false
		}
		first, twice := r.prefixes[prefix]
		if twice {
			r.problem(item, fmt.Sprintf("the prefix %s stands at %d:%d already", quote(prefix), first.line, first.column),
				"write each prefix once")
			return false
		}
		r.prefixes[prefix] = item
		return true
	}), true
}

// checkEnsembles reports jobs with locks on several ensembles, which are never taken
// together.
func (r *reader) checkEnsembles(entries []jobEntry, all []Ensemble) {
	if len(all) == 0 {
		return
	}
	for _, job := range entries {
		for i, lock := range job.locks {
			first, here := ensembleWords(all, job.locks[0].scope), ensembleWords(all, lock.scope)
			if i > 0 && first != here {
				r.problem(lock.scopeAt, fmt.Sprintf("%s is on %s, and %s on %s: locks of two ensembles are not taken together",
					quote(lock.scope), here, quote(job.locks[0].scope), first),
					"give them a prefix in common, or make two jobs of it")
			}
		}
	}
}

// ensembleWords name, for people, where the lock of a scope is.
func ensembleWords(all []Ensemble, scope string) string {
	if e := ensembleOf(all, scope); e != nil {
		return "the ensemble " + quote(e.Name)
	}
	return "the ensemble of zookeeper.servers"
}
