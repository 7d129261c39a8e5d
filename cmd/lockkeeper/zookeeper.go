package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// zookeeperFlags say how to reach ZooKeeper. Each that is left out is taken
// from the environment: LOCKKEEPER_ZK for --zk, LOCKKEEPER_ZK_CA_FILE for
// --zk-ca-file.
type zookeeperFlags struct {
	servers        string
	root           string
	sessionTimeout duration
	digestFile     string
	tls            yes
	caFile         string
	certFile       string
	keyFile        string
	x509           yes
	operators      []string
	contenders     []string
	readers        []string
}

const defaultServers = "localhost:2181"

func (z *zookeeperFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&z.servers, "zk", "",
		"ZooKeeper `servers`, host:port[,host:port][/chroot] (env LOCKKEEPER_ZK, default "+defaultServers+")")
	flags.StringVar(&z.root, "root", "", "`node` that everything lives under (env LOCKKEEPER_ROOT, default /lockkeeper)")
	z.sessionTimeout.positive = "15s"
	flags.Var(&z.sessionTimeout, "zk-session-timeout", "how soon the locks of a dead process are freed (default 15s)")
	flags.StringVar(&z.digestFile, "zk-digest-file", "", "`file` with user:password (env LOCKKEEPER_ZK_DIGEST_FILE)")
	flags.VarPF(&z.tls, "zk-tls", "", "use TLS, with the system's certificate authorities").NoOptDefVal = "true"
	flags.StringVar(&z.caFile, "zk-ca-file", "",
		"use TLS, with the certificate authorities of this `file` (env LOCKKEEPER_ZK_CA_FILE)")
	flags.StringVar(&z.certFile, "zk-cert-file", "",
		"`file` with the certificate of this client (env LOCKKEEPER_ZK_CERT_FILE)")
	flags.StringVar(&z.keyFile, "zk-key-file", "", "`file` with its private key (env LOCKKEEPER_ZK_KEY_FILE)")
	flags.VarPF(&z.x509, "zk-x509", "",
		"ZooKeeper knows this client by its certificate (env LOCKKEEPER_ZK_X509)").NoOptDefVal = "true"
	flags.StringArrayVar(&z.operators, "zk-operators", nil, "`who` may apply overrides and decide, "+
		"as lockkeeper config operator prints it; may be given again (env LOCKKEEPER_ZK_OPERATORS, separated by semicolons)")
	flags.StringArrayVar(&z.contenders, "zk-contenders", nil,
		"`who` may contend for locks, likewise (env LOCKKEEPER_ZK_CONTENDERS)")
	flags.StringArrayVar(&z.readers, "zk-readers", nil,
		"`who` may see everything and write nothing, likewise (env LOCKKEEPER_ZK_READERS)")
}

// secrets are the files with a password or a private key that flags and
// environment name.
func (z *zookeeperFlags) secrets() (names []string) {
	for _, name := range []string{
		cmp.Or(z.digestFile, os.Getenv("LOCKKEEPER_ZK_DIGEST_FILE")), cmp.Or(z.keyFile, os.Getenv("LOCKKEEPER_ZK_KEY_FILE")),
	} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// zookeeperFlag is how the flag for a field of lock.Config is spelt.
func zookeeperFlag(field string) string {
	switch field {
	case "servers", "chroot":
		return "--zk"
	case "session_timeout":
		return "--zk-session-timeout"
	case "auth":
		return "--zk-digest-file"
	case "x509", "operators", "contenders", "readers":
		return "--zk-" + field
	}
	return "--" + field
}

// clientConfig returns how to reach ZooKeeper by flags and environment.
func (p *program) clientConfig() lock.Config {
	var cfg lock.Config
	p.applyZooKeeper(&cfg)
	p.problems.addRequest(cfg.Validate(), zookeeperFlag)
	return cfg
}

// applyZooKeeper puts into cfg, which is of a file, what the environment says, and what
// the flags say: these go before that, and that before the file. Problems are collected.
func (p *program) applyZooKeeper(cfg *lock.Config) {
	z := &p.zookeeper
	servers, from := z.servers, "--zk"
	if servers == "" {
		servers, from = os.Getenv("LOCKKEEPER_ZK"), "LOCKKEEPER_ZK"
	}
	if servers != "" {
		var err error
		cfg.Servers, cfg.Chroot, err = lock.ParseServers(servers)
		p.problems.addRequest(err, func(string) string { return from })
	}
	cfg.Root = cmp.Or(z.root, os.Getenv("LOCKKEEPER_ROOT"), cfg.Root, "/lockkeeper")
	cfg.SessionTimeout = z.sessionTimeout.or(cfg.SessionTimeout)

	p.applyIdentity(cfg)
	for _, list := range []struct {
		given []string
		env   string
		into  *[]string
	}{
		{z.operators, "LOCKKEEPER_ZK_OPERATORS", &cfg.Operators},
		{z.contenders, "LOCKKEEPER_ZK_CONTENDERS", &cfg.Contenders},
		{z.readers, "LOCKKEEPER_ZK_READERS", &cfg.Readers},
	} {
		if len(list.given) == 0 {
			list.given = splitOperators(os.Getenv(list.env))
		}
		if len(list.given) > 0 {
			*list.into = list.given
		}
	}
	ca := cmp.Or(z.caFile, os.Getenv("LOCKKEEPER_ZK_CA_FILE"))
	cert := cmp.Or(z.certFile, os.Getenv("LOCKKEEPER_ZK_CERT_FILE"))
	key := cmp.Or(z.keyFile, os.Getenv("LOCKKEEPER_ZK_KEY_FILE"))
	if ca+cert+key != "" || z.tls.is && cfg.TLS == nil {
		cfg.TLS = p.tls(ca, cert, key)
	}
}

// applyIdentity is about who the client is: a file has the credentials of the daemons,
// the flags and the environment those of the person whose name the deeds are to have.
func (p *program) applyIdentity(cfg *lock.Config) {
	z := &p.zookeeper
	if z.digestFile != "" || z.x509.is {
		if file := z.digestFile; file != "" {
			cfg.Auth = p.digest(file)
		} else {
			cfg.Auth = nil
		}
		cfg.X509 = z.x509.is
		return
	}
	byCertificate := false
	if text := os.Getenv("LOCKKEEPER_ZK_X509"); text != "" {
		var err error
		if byCertificate, err = strconv.ParseBool(text); err != nil {
			p.problems.add(fmt.Sprintf("LOCKKEEPER_ZK_X509: %q is neither true nor false", text))
		}
	}
	switch file := os.Getenv("LOCKKEEPER_ZK_DIGEST_FILE"); {
	case file != "":
		cfg.Auth, cfg.X509 = p.digest(file), byCertificate
	case byCertificate:
		cfg.Auth, cfg.X509, cfg.TLS = nil, true, nil // nor with the daemons' certificate
	}
}

// splitOperators splits at semicolons: the subject of a certificate has commas
// in it, and a semicolon only behind a backslash.
func splitOperators(s string) (operators []string) {
	var one strings.Builder
	end := func() {
		if text := strings.TrimSpace(one.String()); text != "" {
			operators = append(operators, text)
		}
		one.Reset()
	}
	for i, r := range s {
		if r == ';' && (i == 0 || s[i-1] != '\\') {
			end()
			continue
		}
		one.WriteRune(r)
	}
	end()
	return operators
}

// digest reads a file with user:password.
func (p *program) digest(file string) *lock.Digest {
	text := p.read("--zk-digest-file", file)
	if text == nil {
		return nil
	}
	user, password, found := strings.Cut(strings.TrimRight(string(text), "\r\n"), ":")
	if !found || user == "" || password == "" || strings.ContainsAny(user+password, "\r\n") {
		p.problems.add(
			fmt.Sprintf("--zk-digest-file: %s does not have the form user:password; write that on one line", file))
		return nil
	}
	return &lock.Digest{User: user, Password: password}
}

func (p *program) tls(caFile, certFile, keyFile string) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem := p.read("--zk-ca-file", caFile)
		cfg.RootCAs = x509.NewCertPool()
		if pem != nil && !cfg.RootCAs.AppendCertsFromPEM(pem) {
			p.problems.add(
				fmt.Sprintf("--zk-ca-file: there is no certificate in %s; name a file with certificates in PEM form", caFile))
		}
	}
	switch {
	case certFile == "" && keyFile == "":
	case certFile == "":
		p.problems.add("--zk-key-file: the certificate is missing; name it with --zk-cert-file")
	case keyFile == "":
		p.problems.add("--zk-cert-file: the private key is missing; name it with --zk-key-file")
	default:
		cert, key := p.read("--zk-cert-file", certFile), p.read("--zk-key-file", keyFile)
		if cert == nil || key == nil {
			break
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			p.problems.add(
				fmt.Sprintf("--zk-cert-file: %s and %s are no certificate and its key: %v; both have to be in PEM form",
					certFile, keyFile, err))
			break
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

func (p *program) read(flag, file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		p.problems.add(fmt.Sprintf("%s: %s cannot be read: %v; name a file that this user can read",
			flag, file, withoutPath(err)))
		return nil
	}
	return text
}

// withoutPath leaves out the name of the file, which is said beside.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// closeTimeout is how long the end of the program waits for ZooKeeper. What is
// not confirmed by then ends with the session.
const closeTimeout = 2 * time.Second

func closeClient(client *lock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = client.Close(ctx)
}
