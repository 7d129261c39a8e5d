package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Ensemble has the locks of some scopes, in place of the one that Config.Client
// reaches. See recipes.Router.
type Ensemble struct {
	Chroot   string
	Name     string   // of the file, for people
	Prefixes []string // of its scopes, at least one
	Root     string   // empty: that of Config.Client
	Servers  []string
}

// Client says how to reach the ensemble: everything but servers, chroot and root is
// as at home.
func (e Ensemble) Client(home recipes.Config) recipes.Config {
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
			if recipes.HasPrefix(scope, prefix) && len(prefix) > longest {
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
		{"servers", oneOf(aText, someOf(aText)), "", "Its servers, written like zookeeper.servers."},
		{"prefixes", someOf(aText), "", "Which scopes have their locks there: whole segments, so that cluster/eu has cluster/eu/orders and not cluster/europe. The longest prefix of all ensembles wins."},
		{"root", aText, "", "The node that everything lives under there; without it, that of zookeeper."},
	},
	must: []string{"servers", "prefixes"},
	hints: map[string]string{
		"prefix": `did you mean "prefixes"?`, "scopes": `did you mean "prefixes"?`, "hosts": `did you mean "servers"?`, "connect": `did you mean "servers"?`,
		"chroot": `write it behind the servers: "zk1:2181,zk2:2181/chroot"`,
		"auth":   "all ensembles have that of zookeeper", "tls": "all ensembles have that of zookeeper", "session_timeout": "all ensembles have that of zookeeper",
		"operators": "all ensembles have those of zookeeper", "contenders": "all ensembles have those of zookeeper", "readers": "all ensembles have those of zookeeper",
	},
}

// readEnsembles reads where scopes are whose locks are elsewhere, in the order of
// their names.
func (r *reader) readEnsembles(v value) (ensembles []Ensemble) {
	if !v.exists() {
		return nil
	}
	entries, ok := r.entries(v, ensembleExample, v.named)
	if !ok {
		return nil
	}
	at := make(map[string]value)
	for _, e := range entries {
		o, ok := r.object(e.value, ensembleShape)
		if !ok {
			continue
		}
		ensemble := Ensemble{Name: e.name}
		if servers := o.get("servers"); servers.exists() {
			ensemble.Servers, ensemble.Chroot = r.servers(servers)
		} else if !o.has("servers") {
			r.missing(e.value, "servers is missing", ensembleExample)
		}
		if v := o.get("root"); v.exists() {
			if root, ok := r.text(v, "write an absolute path such as /lockkeeper"); ok && !r.refused(v, recipes.Config{Root: root}.Validate()) {
				ensemble.Root = root
			}
		}
		if v := o.get("prefixes"); v.exists() {
			ensemble.Prefixes = r.readPrefixes(v, at)
		} else if !o.has("prefixes") {
			r.missing(e.value, "prefixes is missing", ensembleExample)
		}
		ensembles = append(ensembles, ensemble)
	}
	slices.SortFunc(ensembles, func(a, b Ensemble) int { return strings.Compare(a.Name, b.Name) })
	return ensembles
}

func (r *reader) readPrefixes(v value, at map[string]value) (prefixes []string) {
	const instead = "write a list of them, for example [cluster/eu]"
	items, ok := r.items(v, instead)
	if ok && len(items) == 0 {
		r.problem(v, "the list is empty", instead)
	}
	for _, item := range items {
		prefix, ok := r.text(item, instead)
		if !ok || r.refused(item, recipes.CheckPrefix(prefix)) {
			continue
		}
		if first, twice := at[prefix]; twice {
			r.problem(item, fmt.Sprintf("the prefix %s stands at %d:%d already", quote(prefix), first.line, first.column), "write each prefix once")
			continue
		}
		at[prefix] = item
		prefixes = append(prefixes, prefix)
	}
	return prefixes
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
					quote(lock.scope), here, quote(job.locks[0].scope), first), "give them a prefix in common, or make two jobs of it")
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
