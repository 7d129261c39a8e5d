package config

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/console"
)

// Console says where the daemon shows its console, and what people can do there.
type Console struct {
	// Actions lets people who have signed in act. Defaults to false: the console
	// only looks.
	Actions bool

	// Hosts are names, beside addresses and localhost, under which browsers find
	// it.
	Hosts []string

	// Links lead to traces and workflows.
	Links console.Links

	// Listen is the address, host:port. Port 0 stands for a free one. Empty: there
	// is no console, which is the default.
	Listen string

	// Private shows nothing to those who have not signed in. Defaults to true
	// where the console can be reached from other machines and people can sign in.
	Private bool

	// Proxy says who people are; nil: no proxy does.
	Proxy *console.Proxy

	// TLS is that of the console; nil: it speaks plain HTTP.
	TLS *ConsoleTLS

	// UsersFile has the people who can sign in, and their passwords, as htpasswd -B
	// writes it. Empty: nobody signs in with a password.
	UsersFile string
}

// ConsoleTLS are the files with the certificate of the console and its key, in PEM
// form. They are there and fit together.
type ConsoleTLS struct{ CertFile, KeyFile string }

const exampleConsole = "127.0.0.1:9480"

var consoleShape = shape{
	name:    "console",
	example: "write it like {listen: " + quote(exampleConsole) + "}",
	keys: []key{
		{"listen", aText, "", "The address, host:port, where the console is served. Beyond this machine it needs tls or proxy."},
		{"actions", aBoolean, "false", "Lets people who have signed in preempt, break, override, approve, pause and run. It needs users_file or proxy."},
		{"users_file", aFile, "", "The people who can sign in: a file as htpasswd -B writes it, read again when it changes."},
		{"sign_in", word("to_act", "to_see"), "to_act on this machine, else to_see", "What one has to sign in for."},
		{"proxy", like(&consoleProxyShape), "", "A proxy in front that says who somebody is."},
		{"tls", like(&consoleTLSShape), "", "The certificate of the console."},
		{"hosts", listOf(aText), "", "Names under which browsers find it, beside addresses and localhost; requests for others are refused."},
		{"links", like(&consoleLinksShape), "", "Where traces and workflows are shown."},
	},
	must: []string{"listen"},
	hints: map[string]string{
		"address": `did you mean "listen"?`, "addr": `did you mean "listen"?`, "port": `write it in listen, host:port`, "users": `did you mean "users_file"?`, "password": "put it into a file of users, and name that: users_file: FILE",
		"host": `did you mean "hosts"?`, "enabled": "remove it; listen is enough", "auth": "name a file of users in users_file, or a proxy", "read_only": "remove it; without actions: true the console only looks",
	},
}

var consoleProxyShape = shape{
	name:    "console.proxy",
	example: "write it like {header: X-Forwarded-User, trusted: [10.0.0.5]}",
	keys: []key{
		{"header", aText, "", "The header in which the proxy writes the name of the person; it has to remove what clients write there."},
		{"trusted", listOf(aText), "", "Addresses of proxies, or networks such as 10.0.0.0/24."},
	},
	must: []string{"header", "trusted"},
}

var consoleTLSShape = shape{
	name:    "console.tls",
	example: "write it like {cert_file: FILE, key_file: FILE}",
	keys: []key{
		{"cert_file", aFile, "", "The certificate, in PEM form."},
		{"key_file", aFile, "", "Its private key, in PEM form."},
	},
	must: []string{"cert_file", "key_file"},
}

var consoleLinksShape = shape{
	name:    "console.links",
	example: "write it like {trace: \"https://jaeger.example.org/trace/{trace_id}\"}",
	keys: []key{
		{"trace", aText, "", "Where a trace is shown, with {trace_id} in place of its ID."},
		{"temporal", aText, "", "Where a workflow is shown, with {workflow_id} and perhaps {run_id} in place of its IDs."},
	},
}

func (r *reader) console(v value) Console {
	var c Console
	o, ok := r.optional(v, consoleShape)
	if !ok {
		return c
	}
	listen := o.get("listen")
	if !o.has("listen") {
		r.missing(v, "listen is missing", consoleShape.example)
	} else if address, ok := r.text(listen, "write host:port, for example "+quote(exampleConsole)); ok {
		if what := whyNoAddress(address); what != "" {
			r.problem(listen, quote(address)+" "+what, "write host:port, for example "+quote(exampleConsole))
		} else {
			c.Listen = address
		}
	}
	if v := o.get("actions"); v.exists() {
		c.Actions, _ = r.boolean(v)
	}
	if v := o.get("users_file"); v.exists() {
		c.UsersFile = r.consoleUsers(v)
	}
	c.Proxy = r.consoleProxy(o.get("proxy"))
	c.TLS = r.consoleTLS(o.get("tls"))
	if hosts := o.get("hosts"); hosts.exists() {
		c.Hosts = r.consoleHosts(hosts)
	}
	if l, ok := r.optional(o.get("links"), consoleLinksShape); ok {
		c.Links = console.Links{Trace: r.consoleLink(l.get("trace"), "{trace_id}"), Temporal: r.consoleLink(l.get("temporal"), "{workflow_id}")}
	}
	people := o.has("users_file") || o.has("proxy")
	if c.Actions && !people {
		r.problem(o.get("actions"), "nobody could sign in", "name the people in users_file, or a proxy that says who they are")
	}
	local := isLocal(c.Listen)
	if c.Listen != "" && !local && !o.has("tls") && !o.has("proxy") {
		r.problem(listen, quote(c.Listen)+" can be reached from other machines, which could listen in", "write "+quote(exampleConsole)+", or give the console a certificate (tls), or a proxy in front of it (proxy)")
	}
	c.Private = !local && people
	if v := o.get("sign_in"); v.exists() {
		word, ok := r.word(v, "to_act", "to_see")
		c.Private = ok && word == "to_see"
		if c.Private && !people {
			r.problem(v, "nobody could sign in", "name the people in users_file, or a proxy that says who they are")
		}
	}
	return c
}

// isLocal reports whether an address is reached from this machine alone.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// consoleUsers reads a file of users as the console will.
func (r *reader) consoleUsers(v value) string {
	if _, ok := r.privateFile(v); !ok {
		return ""
	}
	name, _ := r.text(v, "write the name of a file")
	name = r.resolve(name)
	r.secrets = append(r.secrets, name)
	_, err := console.LoadUsers(name, nil, nil)
	for _, problem := range unjoin(err) {
		// never with -c: that would remove all the others who are in it
		r.problem(v, problem.Error(), "htpasswd -B "+name+" NAME writes the line of one person")
	}
	return name
}

func (r *reader) consoleProxy(v value) *console.Proxy {
	o, ok := r.optional(v, consoleProxyShape)
	if !ok {
		return nil
	}
	p := &console.Proxy{}
	for _, must := range consoleProxyShape.must {
		if !o.has(must) {
			r.missing(v, must+" is missing", consoleProxyShape.example)
		}
	}
	if v := o.get("header"); v.exists() {
		name, ok := r.text(v, "write the name of a header, for example X-Forwarded-User")
		if ok && strings.ContainsFunc(name, func(c rune) bool {
			return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
		}) {
			r.problem(v, quote(name)+" is no name of a header", "write one of letters, digits and -, for example X-Forwarded-User")
		}
		p.Header = name
	}
	trusted := o.get("trusted")
	if !trusted.exists() {
		return p
	}
	const instead = "write addresses or networks, for example [10.0.0.5, 10.1.0.0/24]"
	items, _ := r.items(trusted, instead)
	if len(items) == 0 {
		r.problem(trusted, "the list is empty", instead)
	}
	for _, item := range items {
		text, ok := r.text(item, instead)
		if !ok {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); err != nil && bad == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case err != nil:
			r.problem(item, quote(text)+" is neither an address nor a network", instead)
		case prefix.Bits() == 0:
			r.problem(item, quote(text)+" is everybody, who could then claim to be anybody", "write the address of the proxy")
		default:
			p.Trusted = append(p.Trusted, prefix.Masked())
		}
	}
	return p
}

func (r *reader) consoleTLS(v value) *ConsoleTLS {
	o, ok := r.optional(v, consoleTLSShape)
	if !ok {
		return nil
	}
	cert, key := o.get("cert_file"), o.get("key_file")
	if !cert.exists() && !key.exists() {
		r.missing(v, "cert_file and key_file are missing", consoleTLSShape.example)
	}
	if !r.pair(o) || !cert.exists() || !key.exists() {
		return nil
	}
	certPEM, okCert := r.file(cert)
	keyPEM, okKey := r.privateFile(key)
	if !okCert || !okKey {
		return nil
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		r.problem(cert, fmt.Sprintf("no certificate and key: %s", strings.TrimPrefix(err.Error(), "tls: ")), "name a certificate and its private key, both in PEM form")
		return nil
	}
	certName, _ := r.text(cert, "write the name of a file")
	keyName, _ := r.text(key, "write the name of a file")
	r.secrets = append(r.secrets, r.resolve(keyName))
	return &ConsoleTLS{CertFile: r.resolve(certName), KeyFile: r.resolve(keyName)}
}

func (r *reader) consoleHosts(v value) (hosts []string) {
	const instead = "write names without a port, for example [locks.example.org]"
	items, _ := r.items(v, instead)
	for _, item := range items {
		name, ok := r.text(item, instead)
		if !ok {
			continue
		}
		if strings.ContainsAny(name, ":/ *@") {
			r.problem(item, quote(name)+" is no name of a host", instead)
			continue
		}
		hosts = append(hosts, name)
	}
	return hosts
}

// consoleLink reads the template of an address in which must has to stand.
func (r *reader) consoleLink(v value, must string) string {
	if !v.exists() {
		return ""
	}
	link, ok := r.text(v, "write an address with "+must+" in it")
	if !ok {
		return ""
	}
	if what := console.CheckLink(link, must); what != "" {
		text, instead, _ := strings.Cut(what, "; ")
		r.problem(v, quote(link)+" "+text, instead)
		return ""
	}
	return link
}
