package zkclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config says how to reach ZooKeeper.
type Config struct {
	// Auth, when set, authenticates with the digest scheme. Everything that
	// the client creates is then for that user and for Operators only.
	Auth *Digest

	// Chroot is put before every path, for example "/tenants/a". Created when
	// missing. Defaults to none.
	Chroot string

	// Contenders are the identities that may contend for locks, run jobs and join
	// groups, named like Operators. Where there are Contenders or Readers, the
	// three lists say all that any client may do with any node, whichever client
	// makes it, and this client has to be in one of them; docs/security.md has the
	// table. They need Operators. "world:anyone" lets a client contend that has
	// no credentials, or that has Operators given; it is for development. Client.Init
	// leaves the lists in ZooKeeper, where clients without lists find them; those
	// of others have to be the same. Defaults to none: then they are those in
	// ZooKeeper, or else a node is for the identity that makes it, and for
	// Operators.
	Contenders []string

	// ConnectTimeout is how long a new request waits for ZooKeeper before it
	// fails with *UnavailableError. Defaults to 5s.
	ConnectTimeout time.Duration

	// Dialer opens connections. Defaults to net.Dialer. With TLS set, the
	// handshake happens on top of it. Like a socket, a connection has to take 16 KiB before
	// its peer reads them: callers wait for that, at most until it is given up after two
	// fifths of the session timeout, even if their context ends before.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	// LocalQueue lets requests of this client for one lock queue inside of it:
	// those that ask for it exclusively, at one priority, without a Hold, a
	// LockDelay or Patience. The first of them alone has a node, which is passed
	// on from one to the next in one transaction, with a new token each. The value
	// is how many turns in a row may overtake another waiter of the same priority;
	// a more important one waits for one turn. It is for processes in which many
	// goroutines want one lock, which is then taken several times as often. Those
	// inside of the process are not seen in ZooKeeper, but for how many there are
	// (Contender.Behind), so a circle of waiting that leads through them is not
	// found. From 1 to MaxLocalQueue. Defaults to 0: every request has a node.
	LocalQueue int

	// Logger gets connects, losses and sessions; at debug level, what the client
	// library logs. It is called in the background, so one that blocks delays
	// nothing: 256 records wait for it at most, and a record says how many were
	// dropped. Close waits for it for 0.1 s at most. Defaults to discarding.
	Logger *slog.Logger

	// Margin is how long before the server can expire the session a hold ends, at
	// least. It has to cover what the client cannot know: how late the leader's loop of
	// pings may be (a busy or paused server), how differently the clocks run over a session
	// timeout, and the time that work needs to stop once its context is cancelled. LeastMargin
	// is the least that makes sense. It need not cover the servers' tick while the session timeout
	// is two ticks and 400ms or more. For observers behind an observer
	// master add half a tick and a fifth of the session timeout.
	// At most half of the session timeout. Defaults to a twelfth of it: 1.25s of 15s.
	// docs/protocol.md, "The session's deadline", has the reckoning.
	Margin time.Duration

	// Operators are who may apply overrides, decide about approvals and set right
	// whatever this client creates, as ZooKeeper's access control lists name them:
	// "digest:USER:HASH" (see DigestID) or "x509:SUBJECT". Defaults to those of
	// <root>/identities, where lockkeeper init leaves them; a client with other
	// ones is refused. Where there are none either, every client with the rights
	// on the root is an operator.
	Operators []string

	// QueueLimit is how many requests may stand before one that joins the queue of
	// a lock: one that finds more fails with a *QueueFullError. At most MaxQueueLimit.
	// Defaults to DefaultQueueLimit.
	QueueLimit int

	// Readers are the identities that may see everything and write nothing, named
	// like Operators. See Contenders. Defaults to none.
	Readers []string

	// Root is the node under which everything lives: any path but "/" and
	// ZooKeeper's own, "/zookeeper". Defaults to "/lockkeeper".
	Root string

	// Servers are host:port pairs; the port defaults to 2181.
	// Defaults to localhost:2181.
	Servers []string

	// SessionTimeout is how long after the last sign of life the server frees
	// what a client holds. The server may grant another one (it allows 2 to 20
	// of its ticks). Defaults to 15s.
	SessionTimeout time.Duration

	// TLS, when set, is used for every connection. ServerName, which the servers'
	// certificates have to be for, defaults to the host of each server, and
	// MinVersion to TLS 1.2, below which nothing is accepted; nor is
	// InsecureSkipVerify, without a check of one's own.
	TLS *tls.Config

	// X509 says that the servers authenticate the client by the first
	// certificate in TLS, as they do on ZooKeeper's secureClientPort. It
	// excludes Auth. Everything that the client creates is then for the
	// certificate's subject and for Operators only.
	X509 bool
}

const defaultRoot = "/lockkeeper"

// MarginOf returns how long before the end of a session with this timeout, as the
// server has granted it, a hold ends: Margin, but half of timeout at most; without one, a twelfth of it.
func (cfg Config) MarginOf(timeout time.Duration) time.Duration {
	if cfg.Margin > 0 {
		return min(cfg.Margin, timeout/longestMargin)
	}
	return timeout / defaultMargin
}

// LeastMargin returns the shortest Config.Margin that makes sense for sessions with this timeout at servers with this
// tick (tickTime, the longest of all servers): 100ms and a hundredth of the timeout. Where the timeout is shorter
// than two ticks and 400ms, a ping that is 100ms late may cost a heartbeat, which is added, and so is what the
// timeout is shorter than two ticks. docs/protocol.md, "The session's deadline", has the reckoning.
func LeastMargin(timeout, tick time.Duration) time.Duration {
	least := 100*time.Millisecond + timeout/100
	if short := tick/2 - timeout/pingInterval; short > -100*time.Millisecond {
		least += timeout/beatInterval + max(0, short)
	}
	return least
}

// ParseServers splits a connect string, host:port[,host:port][/chroot].
func ParseServers(s string) (servers []string, chroot string, err error) {
	list, chroot, found := strings.Cut(s, "/")
	if found {
		chroot = "/" + strings.Trim(chroot, "/")
		if chroot == "/" {
			chroot = ""
		}
	}
	var errs []error
	for server := range strings.SplitSeq(list, ",") {
		address, err := serverAddress(strings.TrimSpace(server))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		servers = append(servers, address)
	}
	if err := CheckOurs("chroot", chroot); chroot != "" && err != nil {
		errs = append(errs, err)
	}
	return servers, chroot, errors.Join(errs...)
}

func serverAddress(s string) (string, error) {
	bad := func(why string) (string, error) {
		return "",
			&RequestError{Field: "servers", Reason: fmt.Sprintf("%q %s; write host:port, for example localhost:2181", s, why)}
	}
	if s == "" {
		return bad("is empty")
	}
	if strings.ContainsAny(s, " \t") {
		return bad("contains a blank")
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if strings.Contains(s, ":") && !strings.HasPrefix(s, "[") {
			return bad("is not an address")
		}
		host, port = strings.Trim(s, "[]"), "2181"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return bad("has no valid port")
	}
	if host == "" {
		return bad("has no host")
	}
	return net.JoinHostPort(host, port), nil
}

// Validate returns everything that is wrong with cfg, joined (errors.Join); each
// problem is a *RequestError. NewClient calls it.
func (cfg Config) Validate() error { return cfg.complete() }

// complete fills in defaults and reports everything that is wrong.
func (cfg *Config) complete() error {
	errs := cfg.completeAddress()
	bad := func(field, format string, args ...any) {
		errs = append(errs, &RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	cfg.completeLimits(bad)
	if cfg.Auth != nil && (cfg.Auth.User == "" || strings.Contains(cfg.Auth.User, ":")) {
		bad("auth", "the digest user %q must not be empty nor contain a colon", cfg.Auth.User)
	}
	cfg.checkAccess(bad)
	if cfg.X509 {
		cfg.checkX509(bad)
	}
	if cfg.TLS != nil {
		checkTLS(cfg.TLS, bad)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Dialer == nil {
		cfg.Dialer = dialNetwork
	}
	if cfg.TLS != nil {
		cfg.Dialer = dialTLS(cfg.Dialer, cfg.TLS)
	}
	return errors.Join(errs...)
}

// completeAddress is complete for the servers and the nodes on them.
func (cfg *Config) completeAddress() (errs []error) {
	if len(cfg.Servers) == 0 {
		cfg.Servers = []string{"localhost:2181"}
	}
	servers := make([]string, 0, len(cfg.Servers))
	for _, s := range cfg.Servers {
		address, err := serverAddress(s)
		if err != nil {
			errs = append(errs, err)
		}
		servers = append(servers, address)
	}
	cfg.Servers = servers
	if cfg.Root == "" {
		cfg.Root = defaultRoot
	}
	if err := CheckOurs("root", cfg.Root); err != nil {
		errs = append(errs, err)
	}
	if cfg.Chroot != "" {
		if err := CheckOurs("chroot", cfg.Chroot); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// completeLimits is complete for counts and durations.
func (cfg *Config) completeLimits(bad func(field, format string, args ...any)) {
	if cfg.QueueLimit == 0 {
		cfg.QueueLimit = DefaultQueueLimit
	}
	if cfg.QueueLimit < 1 || cfg.QueueLimit > MaxQueueLimit {
		bad("queue_limit", "%d is not between 1 and %d, how many names of requests fit into one answer of ZooKeeper",
			cfg.QueueLimit, MaxQueueLimit)
	}
	if cfg.LocalQueue < 0 || cfg.LocalQueue > MaxLocalQueue {
		bad("local_queue", "%d is not between 0 and %d; "+
			"write how many turns in a row may overtake a waiter, for example 32", cfg.LocalQueue, MaxLocalQueue)
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 15 * time.Second
	}
	if cfg.SessionTimeout < 10*time.Millisecond || cfg.SessionTimeout > time.Hour {
		bad("session_timeout", "%s is out of range; write something from 1s to 60s, for example 15s", cfg.SessionTimeout)
	}
	if cfg.Margin < 0 || cfg.Margin > cfg.SessionTimeout/longestMargin {
		bad("margin", "%s must be positive, and at most half of the session timeout of %s (%s)",
			cfg.Margin, cfg.SessionTimeout, cfg.SessionTimeout/longestMargin)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	if cfg.ConnectTimeout < 0 {
		bad("connect_timeout", "%s is negative; write for example 5s", cfg.ConnectTimeout)
	}
}

// checkX509 checks that the client certificate can say who the client is.
func (cfg *Config) checkX509(bad func(field, format string, args ...any)) {
	if cfg.Auth != nil {
		bad("x509", "the client has a digest user already; give one of the two")
	}
	if subject, err := certificateSubject(cfg.TLS); err != nil {
		bad("x509", "%v", err)
	} else if _, err := parseOperator("x509:" + subject); err != nil {
		bad("x509", "the subject of the client certificate cannot be used: %v", err)
	}
}

// checkTLS refuses settings under which the connection is not safe.
func checkTLS(t *tls.Config, bad func(field, format string, args ...any)) {
	if t.InsecureSkipVerify && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil {
		bad("tls", "InsecureSkipVerify accepts any server; "+
			"put the certificate authority into RootCAs, and the name of the servers' certificates into ServerName")
	}
	if t.MinVersion != 0 && t.MinVersion < tls.VersionTLS12 {
		bad("tls", "a minimum of %s can be broken into; leave MinVersion out for %s",
			tls.VersionName(t.MinVersion), tls.VersionName(tls.VersionTLS12))
	}
}

// CheckOurs refuses a path that we cannot live under.
func CheckOurs(field, path string) error {
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return &RequestError{
			Field: field, Reason: path + " belongs to ZooKeeper itself; write another path, such as /lockkeeper",
		}
	}
	return checkPath(field, path)
}

func dialTLS(dial func(context.Context, string, string) (net.Conn, error), cfg *tls.Config) func(context.Context,
	string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := cfg.Clone()
		own.MinVersion = max(own.MinVersion, tls.VersionTLS12)
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		conn := tls.Client(raw, own)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
		}
		return conn, nil
	}
}

// How many requests may wait for one lock. A name of one takes 52 bytes in a
// list: 15,000 of them 780 kB.
const (
	DefaultQueueLimit = 15_000
	MaxQueueLimit     = 17_500
)

// MaxLocalQueue is the largest Config.LocalQueue.
const MaxLocalQueue = 1000
