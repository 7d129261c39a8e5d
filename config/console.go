package config

import (
	"net"
	"net/netip"
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/console"
)

// Console says where the daemon shows its console, and what people can do there.
type Console struct {
	// Actions lets people who have signed in act. Defaults to false: the console
	// is read-only.
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
	// writes it. Empty: no sign-in with a password.
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
		needed(to("listen", address(exampleConsole), "",
			"The address, host:port, where the console is served. Beyond this machine it needs tls or proxy.",
			func(c *Console) *string { return &c.Listen })),
		to("actions", yesOrNo, false,
			"Lets people who have signed in preempt, break, override, approve, pause and run. It needs users_file or proxy.",
			func(c *Console) *bool { return &c.Actions }),
		to("users_file", of[string]{kind: aFile, read: (*reader).consoleUsers, show: quoted}, "",
			"The people who can sign in: a file as htpasswd -B writes it, read again when it changes.",
			func(c *Console) *string { return &c.UsersFile }),
		compared(apart("sign_in", word("to_act", "to_see"), "to_act on this machine, else to_see",
			"What one has to sign in for."), func(c *Console) bool { return c.Private }, nil),
		to("proxy", of[*console.Proxy]{kind: like(&consoleProxyShape), read: (*reader).consoleProxy}, "",
			"A proxy in front that names the user.", func(c *Console) **console.Proxy { return &c.Proxy }),
		to("tls", of[*ConsoleTLS]{kind: like(&consoleTLSShape), read: (*reader).consoleTLS}, "",
			"The certificate of the console.", func(c *Console) **ConsoleTLS { return &c.TLS }),
		to("hosts", textList("write names without a port, for example [locks.example.org]", (*reader).hostName), "",
			"Names under which browsers find it, beside addresses and localhost; requests for others are refused.",
			func(c *Console) *[]string { return &c.Hosts }),
		to("links", of[console.Links]{kind: like(&consoleLinksShape), read: (*reader).consoleLinks}, "",
			"Where traces and workflows are shown.", func(c *Console) *console.Links { return &c.Links }),
	},
	hints: map[string]string{
		"address": `did you mean "listen"?`, "addr": `did you mean "listen"?`, "port": `write it in listen, host:port`,
		"users": `did you mean "users_file"?`, "password": "put it into a file of users, and name that: users_file: FILE",
		"host": `did you mean "hosts"?`, "enabled": "remove it; listen is enough",
		"auth":      "name a file of users in users_file, or a proxy",
		"read_only": "remove it; without actions: true the console is read-only",
	},
}

var consoleProxyShape = shape{
	name:    "console.proxy",
	example: "write it like {header: X-Forwarded-User, trusted: [10.0.0.5]}",
	keys: []key{
		needed(by("header", aText, "",
			"The header in which the proxy writes the name of the person; it has to remove what clients write there.",
			(*reader).proxyHeader)),
		needed(by("trusted", listOf(aText), "",
			"Addresses of proxies, or networks such as 10.0.0.0/24.", (*reader).trustedProxies)),
	},
}

var consoleTLSShape = shape{
	name:    "console.tls",
	example: "write it like {cert_file: FILE, key_file: FILE}",
	keys: []key{
		needed(apart("cert_file", aFile, "", "The certificate, in PEM form.")),
		needed(apart("key_file", aFile, "", "Its private key, in PEM form.")),
	},
}

var consoleLinksShape = shape{
	name:    "console.links",
	example: "write it like {trace: \"https://jaeger.example.org/trace/{trace_id}\"}",
	keys: []key{
		to("trace", link("{trace_id}"), "",
			"Where a trace is shown, with {trace_id} in place of its ID.", func(l *console.Links) *string { return &l.Trace }),
		to("temporal", link("{workflow_id}"), "",
			"Where a workflow is shown, with {workflow_id} and perhaps {run_id} in place of its IDs.",
			func(l *console.Links) *string { return &l.Temporal }),
	},
}

// checkConsole looks whether the address, and who can sign in, go together.
func (r *reader) checkConsole(o object, c *Console) {
	people, local := o.has("users_file") || o.has("proxy"), isLocal(c.Listen)
	noSignIn := func(at value) {
		r.problem(at, "no one can sign in", "name the people in users_file, or a proxy that says who they are")
	}
	if c.Actions && !people {
		noSignIn(o.get("actions"))
	}
	if c.Listen != "" && !local && !o.has("tls") && !o.has("proxy") {
		r.problem(o.get("listen"), quote(c.Listen)+" can be reached from other machines, which could listen in",
			"write "+quote(exampleConsole)+", or give the console a certificate (tls), or a proxy in front of it (proxy)")
	}
	c.Private = !local && people
	if v := o.get("sign_in"); v.exists() {
		word, ok := r.word(v, "to_act", "to_see")
		c.Private = ok && word == "to_see"
		if c.Private && !people {
			noSignIn(v)
		}
	}
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
func (r *reader) consoleUsers(v value) (string, bool) {
	if _, ok := r.privateFile(v); !ok {
		return "", false
	}
	name, _ := r.text(v, "write the name of a file")
	name = r.resolve(name)
	r.secrets = append(r.secrets, name)
	_, err := console.LoadUsers(name, nil, nil)
	for _, problem := range unjoin(err) {
		// never with -c: that would remove all the others who are in it
		r.problem(v, problem.Error(), "htpasswd -B "+name+" NAME writes the line of one person")
	}
	return name, true
}

func (r *reader) consoleProxy(v value) (*console.Proxy, bool) {
	p := &console.Proxy{}
	_, ok := r.section(v, &consoleProxyShape, p)
	if !ok {
		return nil, false
	}
	return p, true
}

func (r *reader) proxyHeader(v value, p *console.Proxy) {
	name, ok := r.text(v, "write the name of a header, for example X-Forwarded-User")
	if ok && strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) {
		r.problem(v, quote(name)+" is no name of a header",
			"write one of letters, digits and -, for example X-Forwarded-User")
	}
	p.Header = name
}

func (r *reader) trustedProxies(v value, p *console.Proxy) {
	const instead = "write addresses or networks, for example [10.0.0.5, 10.1.0.0/24]"
	r.texts(v, instead, func(r *reader, item value, text string) bool {
		prefix, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); err != nil && bad == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case err != nil:
			r.problem(item, quote(text)+" is neither an address nor a network", instead)
		case prefix.Bits() == 0:
			r.problem(item, quote(text)+" is every address: any client could then claim any name",
				"write the address of the proxy")
		default:
			p.Trusted = append(p.Trusted, prefix.Masked())
		}
		return false
	})
	if v.exists() && (!r.isList(v) || len(v.node.Content) == 0) {
		r.problem(v, "the list is empty", instead)
	}
}

func (r *reader) consoleTLS(v value) (*ConsoleTLS, bool) {
	o, ok := r.optional(v, &consoleTLSShape)
	if !ok {
		return nil, false
	}
	cert, key := o.get("cert_file"), o.get("key_file")
	if !cert.exists() && !key.exists() {
		r.missing(v, "cert_file and key_file are missing", consoleTLSShape.example)
	}
	if _, ok := r.certificate(o); !ok {
		return nil, false
	}
	certName, _ := r.text(cert, "write the name of a file")
	keyName, _ := r.text(key, "write the name of a file")
	r.secrets = append(r.secrets, r.resolve(keyName))
	return &ConsoleTLS{CertFile: r.resolve(certName), KeyFile: r.resolve(keyName)}, true
}

func (r *reader) hostName(v value, name string) bool {
	if strings.ContainsAny(name, ":/ *@") {
		r.problem(v, quote(name)+" is no name of a host", "write names without a port, for example [locks.example.org]")
		return false
	}
	return true
}

func (r *reader) consoleLinks(v value) (links console.Links, ok bool) {
	_, ok = r.section(v, &consoleLinksShape, &links)
	return links, ok
}

// link is the template of an address in which must has to stand.
func link(must string) of[string] {
	return of[string]{kind: aText, read: func(r *reader, v value) (string, bool) {
		link, ok := r.text(v, "write an address with "+must+" in it")
		if !ok {
			return "", false
		}
		if what := console.CheckLink(link, must); what != "" {
			text, instead, _ := strings.Cut(what, "; ")
			r.problem(v, quote(link)+" "+text, instead)
			return "", false
		}
		return link, true
	}}
}
