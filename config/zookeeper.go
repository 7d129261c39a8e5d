package config

import (
	"errors"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	defaultSessionTimeout = 15 * time.Second
)

var zookeeperShape = shape{
	name:    "zookeeper",
	example: `write it like {servers: [zk1:2181, zk2:2181]}`,
	keys: []key{
		compared(apart("servers", oneOf(aText, someOf(aText)), "",
			"The servers, host:port each, as a list or in one text; behind it a chroot."),
			func(c *Config) string { return servers(c.Client) }, plain),
		to("root", aRoot, "/lockkeeper", "The node that everything lives under.",
			func(c *Config) *string { return &c.Client.Root }),
		compared(apart("session_timeout", aDuration, defaultSessionTimeout,
			"How long after the last sign of life a dead daemon's locks are freed."),
			func(c *Config) time.Duration { return c.Client.SessionTimeout }, period),
		compared(apart("auth", like(&authShape), "", "Who the daemon is."),
			func(c *Config) any { return []any{c.Client.Auth, c.Client.X509} }, nil),
		to("operators", identities, "", "Who may apply overrides, decide and set right whatever the daemon creates, as "+
			"ZooKeeper's access lists name them: digest:USER:HASH (lockkeeper config operator prints it) or x509:SUBJECT. If "+
			"there are no contenders or readers, list the daemons' identity here; otherwise in contenders. lockkeeper init "+
			"leaves the three lists in ZooKeeper: a file without them takes those, and one that has other ones is refused.",
			func(c *Config) *[]string { return &c.Client.Operators }),
		to("contenders", identities, "", "Who may contend for locks, run jobs and join groups, named like operators. "+
			"Once there are contenders or readers, the three lists are all the rights that there are, and the daemon's own "+
			"identity has to be in one of them.", func(c *Config) *[]string { return &c.Client.Contenders }),
		to("readers", identities, "",
			"Who may see everything and write nothing, such as consoles and auditors, named like operators.",
			func(c *Config) *[]string { return &c.Client.Readers }),
		compared(by("ensembles", named(like(&ensembleShape)), "", "Other ensembles, by names of your choice, "+
			"that have the locks of some scopes in place of this one. Every process of the cluster must say the same.",
			(*reader).readEnsembles), func(c *Config) []Ensemble { return c.Ensembles }, nil),
		comparedBy(apart("tls", like(&tlsShape), "",
			"TLS to the servers; {} trusts the certificate authorities of the system."),
			func(a, b *Config) bool { return sameTLS(a.Client.TLS, b.Client.TLS) }),
	},
	hints: map[string]string{
		"operator": `did you mean "operators"?`, "contender": `did you mean "contenders"?`,
		"workers": `did you mean "contenders"?`, "members": `did you mean "contenders"?`,
		"reader": `did you mean "readers"?`, "viewers": `did you mean "readers"?`, "admins": `did you mean "operators"?`,
		"ensemble": `did you mean "ensembles"?`, "prefixes": "write them below an ensemble: " + ensembleExample,
		"routes": `did you mean "ensembles"?`,
		"server": `did you mean "servers"?`, "hosts": `did you mean "servers"?`, "addresses": `did you mean "servers"?`,
		"connect": `did you mean "servers"?`,
		"chroot":  `write it behind the servers: "zk1:2181,zk2:2181/chroot"`,
	},
}

// zookeeper reads how to reach ZooKeeper, and which locks are elsewhere.
func (r *reader) zookeeper(v value, c *Config) {
	cfg := &c.Client
	cfg.SessionTimeout = defaultSessionTimeout
	r.session = setting[time.Duration]{v: defaultSessionTimeout, from: builtin}
	o, ok := r.section(v, &zookeeperShape, c)
	if !ok {
		return
	}
	cfg.Servers, cfg.Chroot = r.servers(o.get("servers"))
	if v := o.get("session_timeout"); v.exists() {
		r.session = setting[time.Duration]{at: v, given: true, bad: true}
		if d, ok := r.duration(v, false); ok && !r.refused(v, lock.Config{SessionTimeout: d}.Validate()) {
			cfg.SessionTimeout = d
			r.session = setting[time.Duration]{v: d, at: v, given: true}
		}
	}
	auth := o.get("auth")
	cfg.Auth, cfg.X509 = r.auth(auth)
	cfg.TLS = r.tls(o.get("tls"))
	switch {
	case !cfg.X509:
	case cfg.TLS == nil || len(cfg.TLS.Certificates) == 0:
		r.problem(auth, "x509 needs the certificate of the daemon", "name cert_file and key_file in zookeeper.tls")
	default:
		r.refused(auth, lock.Config{X509: true, TLS: cfg.TLS}.Validate())
	}
	r.checkIdentities(o, cfg)
}

// checkIdentities looks whether those who may do something, if they could be read,
// go together.
func (r *reader) checkIdentities(o object, cfg *lock.Config) {
	if r.badIdentities || o.has("auth") && cfg.Auth == nil && !cfg.X509 {
		return // who the daemon is is not known
	}
	err := lock.Config{
		Auth: cfg.Auth, X509: cfg.X509, TLS: cfg.TLS, Operators: cfg.Operators, Contenders: cfg.Contenders,
		Readers: cfg.Readers,
	}.Validate()
	for _, problem := range unjoin(err) {
		wrong, ok := errors.AsType[*lock.RequestError](problem)
		if ok && wrong.Field == "auth" {
			continue // it may come from the environment
		}
		at := o.get("readers")
		if ok && o.has(wrong.Field) {
			at = o.get(wrong.Field)
		} else if o.has("contenders") {
			at = o.get("contenders")
		}
		r.refused(at, problem)
	}
}

// identities are users as ZooKeeper's access lists name them.
var identities = of[[]string]{kind: listOf(aText), read: func(r *reader, v value) ([]string, bool) {
	before := r.problems()
	all := r.texts(v,
		"write [digest:USER:HASH]; lockkeeper config operator prints it", func(r *reader, item value, text string) bool {
			return !r.refused(item, lock.Config{Operators: []string{text}}.Validate())
		})
	r.badIdentities = r.badIdentities || r.problems() > before
	return all, true
}}

// aRoot is the node that everything lives under.
var aRoot = of[string]{kind: aText, read: func(r *reader, v value) (string, bool) {
	root, ok := r.text(v, "write an absolute path such as /lockkeeper")
	if !ok || r.refused(v, lock.Config{Root: root}.Validate()) {
		return "", false
	}
	return root, true
}}

// servers reads a list of host:port, or a connect string with a chroot.
func (r *reader) servers(v value) (servers []string, chroot string) {
	const instead = `write [zk1:2181, zk2:2181] or "zk1:2181,zk2:2181/chroot"`
	if !v.exists() {
		return nil, ""
	}
	if !r.isList(v) {
		text, ok := r.text(v, instead)
		if !ok {
			return nil, ""
		}
		servers, chroot, err := lock.ParseServers(text)
		r.refused(v, err)
		return servers, chroot
	}
	items, _ := r.items(v, instead)
	if len(items) == 0 {
		r.problem(v, "the list is empty", instead)
	}
	for _, item := range items {
		text, ok := r.text(item, "write host:port, for example zk1:2181")
		if !ok {
			continue
		}
		if strings.ContainsAny(text, "/,") {
			r.problem(item, quote(text)+" is not one server",
				`write host:port here, or all in one string: "zk1:2181,zk2:2181/chroot"`)
			continue
		}
		one, _, err := lock.ParseServers(text)
		if r.refused(item, err) {
			continue
		}
		servers = append(servers, one...)
	}
	return servers, ""
}

var authShape = shape{
	name:    "zookeeper.auth",
	example: "write {digest_file: FILE}, where FILE has user:password in it",
	keys: []key{
		apart("digest_file", aFile, "", "A file with one line, user:password."),
		apart("x509", aBoolean, "false",
			"The servers know the daemon by its certificate (zookeeper.tls); excludes digest_file."),
	},
	hints: map[string]string{
		"user":     "write digest_file: FILE, where FILE has user:password in it",
		"password": "put it into a file and name that: digest_file: FILE",
		"digest":   "put user:password into a file and name that: digest_file: FILE",
	},
	later: []string{"sasl", "kerberos"},
}

func (r *reader) auth(v value) (digest *lock.Digest, x509 bool) {
	if !v.exists() {
		return nil, false
	}
	o, ok := r.object(v, &authShape)
	if !ok {
		return nil, false
	}
	if v := o.get("x509"); v.exists() {
		x509, _ = r.boolean(v)
	}
	file := o.get("digest_file")
	switch {
	case x509 && o.has("digest_file"):
		r.problem(o.get("x509"), "the daemon has a digest user already", "write one of the two, x509 or digest_file")
	case file.exists():
		return r.digest(file), false
	case !x509 && !o.has("digest_file"):
		r.missing(v, "digest_file is missing", authShape.example)
	}
	return nil, x509
}

func (r *reader) digest(file value) *lock.Digest {
	data, ok := r.privateFile(file)
	if !ok {
		return nil
	}
	user, password, found := strings.Cut(strings.TrimRight(string(data), "\r\n"), ":")
	if !found || user == "" || password == "" || strings.ContainsAny(password, "\r\n") ||
		strings.ContainsAny(user, "\r\n") {
		r.problem(file, "the file does not have the form user:password", "write one line into it, user:password")
		return nil
	}
	return &lock.Digest{User: user, Password: password}
}
