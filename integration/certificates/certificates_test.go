package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{t, key, cert}
}

func (a authority) sign(subject pkix.Name) tls.Certificate {
	return a.signFor(subject, []string{"localhost"}, net.IPv4(127, 0, 0, 1))
}

// signFor signs for a machine of these names and addresses.
func (a authority) signFor(subject pkix.Name, names []string, ips ...net.IP) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: names, IPAddresses: ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// file writes PEM blocks into a file.
func (a authority) file(name string, blocks ...*pem.Block) string {
	a.t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	path := filepath.Join(a.t.TempDir(), name)
	require.NoError(a.t, os.WriteFile(path, text, 0o600))
	return path
}

// start runs a server that wants certificates of this authority, and returns its
// address.
func (a authority) start() string {
	return a.startAs(a.sign(pkix.Name{CommonName: "server"}))
}

func (a authority) startAs(own tls.Certificate) string {
	a.t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	require.NoError(a.t, err)
	port, err := loopback.Reserve()
	require.NoError(a.t, err)
	a.t.Cleanup(func() { require.NoError(a.t, port.Release()) })
	set := zkserver.WithSetting
	zkserver.Start(a.t, zkserver.WithSessionTimeouts(time.Second, time.Minute),
		set("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"),
		set("secureClientPort", strconv.Itoa(port.Number())), set("secureClientPortAddress", "127.0.0.1"), set("ssl.clientAuth", "need"),
		set("ssl.keyStore.type", "PEM"), set("ssl.keyStore.location", a.file("server.pem", &pem.Block{Type: "PRIVATE KEY", Bytes: key}, &pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})),
		set("ssl.trustStore.type", "PEM"), set("ssl.trustStore.location", a.file("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})),
		// Debian's jar does not name all that its TLS needs.
		zkserver.WithJVMFlags("-Xbootclasspath/a:"+strings.Join(netty(a.t), ":")))
	return port.Addr()
}

func netty(t *testing.T) (jars []string) {
	t.Helper()
	for _, part := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll", "transport-native-unix-common"} {
		jars = append(jars, "/usr/share/java/netty-"+part+".jar")
	}
	return jars
}

func (a authority) tls(own ...tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, Certificates: own, MinVersion: tls.VersionTLS12}
}

func client(t *testing.T, addr string, cfg lock.Config) *lock.Client {
	t.Helper()
	cfg.Servers, cfg.Root = []string{addr}, "/lockkeeper"
	return harness.NewClient(t, cfg)
}

func incident(id string) override.Override {
	return override.Override{ID: id, Kind: override.Freeze, Until: time.Now().Add(time.Hour), By: "ana", Reason: "disk full"}
}

func TestClientsAreKnownByTheirCertificates(t *testing.T) {
	a := newAuthority(t)
	addr := a.start()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	keeper := a.sign(pkix.Name{CommonName: "keeper", Organization: []string{"example, inc"}, Country: []string{"DE"}, SerialNumber: "17"})
	ana := a.sign(pkix.Name{CommonName: "ana", Organization: []string{"example"}})
	eve := a.sign(pkix.Name{CommonName: "eve", Organization: []string{"example"}})

	// given a daemon, and an operator that it knows by name
	anaID, err := lock.Config{TLS: a.tls(ana), X509: true}.OperatorID()
	require.NoError(t, err)
	require.Equal(t, "x509:CN=ana,O=example", anaID)
	keeperID, err := lock.Config{TLS: a.tls(keeper), X509: true}.OperatorID()
	require.NoError(t, err)
	operators := []string{anaID, keeperID}
	daemon := client(t, addr, lock.Config{TLS: a.tls(keeper), X509: true, Operators: operators})
	require.Equal(t, `x509:2.5.4.5=#13023137,CN=keeper,O=example\, inc,C=DE`, daemon.Identity())
	_, err = daemon.Overrides().Apply(ctx, incident("INC-1"))
	require.NoError(t, err)
	require.NoError(t, daemon.CheckAccess(ctx), "what ZooKeeper makes of the certificates is what we make of them")

	// when the operator comes
	_, err = client(t, addr, lock.Config{TLS: a.tls(ana), X509: true, Operators: operators}).Overrides().Apply(ctx, incident("INC-2"))
	require.NoError(t, err)

	// then it is known
	posted, err := daemon.Overrides().List(ctx)
	require.NoError(t, err)
	require.Len(t, posted, 2)
	require.Equal(t, "x509:CN=ana,O=example", posted[1].PostedBy)

	// and other users learn that they are not
	var access *lock.AccessError
	var identity *lock.IdentityError
	stranger := client(t, addr, lock.Config{TLS: a.tls(eve), X509: true})
	_, err = stranger.Overrides().Apply(ctx, incident("INC-3"))
	require.ErrorAs(t, err, &access)
	require.ErrorContains(t, err, `does not allow it to the certificate "x509:CN=eve,O=example"`)
	_, err = stranger.Overrides().List(ctx)
	require.ErrorAs(t, err, &access)
	_, err = client(t, addr, lock.Config{TLS: a.tls(eve), X509: true, Operators: operators}).Overrides().Clear(ctx, "INC-1")
	require.ErrorAs(t, err, &identity)
	_, err = client(t, addr, lock.Config{TLS: a.tls(eve), Auth: &lock.Digest{User: "ana", Password: "x"}}).Overrides().Clear(ctx, "INC-1")
	require.ErrorAs(t, err, &access)
	raw := bare(t, addr, a.tls(eve))
	for _, node := range []string{"/lockkeeper", "/lockkeeper/overrides"} {
		_, _, err = raw.Get(node)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = raw.Set(node, nil, -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = raw.SetACL(node, zk.WorldACL(zk.PermAll), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	}
	require.ErrorIs(t, raw.Delete("/lockkeeper/overrides", -1), zk.ErrNoAuth)
}

// The three lists, by certificates: who may do what, by our client and by the
// bare protocol.
func TestContendersAndReadersAreKnownByTheirCertificates(t *testing.T) {
	a := newAuthority(t)
	addr := a.start()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	who := map[string]tls.Certificate{}
	ids := map[string]string{}
	for _, name := range []string{"ana", "worker", "keeper", "rita", "eve"} {
		who[name] = a.sign(pkix.Name{CommonName: name, Organization: []string{"example, inc"}})
		id, err := lock.Config{TLS: a.tls(who[name]), X509: true}.OperatorID()
		require.NoError(t, err)
		ids[name] = id
	}
	named := func(name string) *lock.Client {
		return client(t, addr, lock.Config{
			TLS: a.tls(who[name]), X509: true, Operators: []string{ids["ana"]}, Contenders: []string{ids["worker"], ids["keeper"]}, Readers: []string{ids["rita"]},
		})
	}
	require.ErrorAs(t, take(ctx, named("keeper")), new(*lock.NoRootError))
	_, err := named("ana").Overrides().Apply(ctx, incident("INC-1"))
	require.NoError(t, err)
	for _, name := range []string{"keeper", "worker", "ana"} {
		require.NoError(t, take(ctx, named(name)), name)
	}
	for _, name := range []string{"keeper", "worker", "rita"} {
		c := named(name)
		posted, err := c.Overrides().List(ctx)
		require.NoError(t, err, "%s believes the operator", name)
		require.Len(t, posted, 1)
		require.NoError(t, c.CheckAccess(ctx))
		_, err = c.Overrides().Clear(ctx, "INC-1")
		require.ErrorAs(t, err, new(*lock.IdentityError))
		raw := bare(t, addr, a.tls(who[name]))
		_, err = raw.Set("/lockkeeper/overrides", nil, -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		require.ErrorIs(t, raw.Delete("/lockkeeper/overrides", -1), zk.ErrNoAuth, name)
		_, err = raw.SetACL("/lockkeeper/locks", zk.WorldACL(zk.PermAll), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		_, err = raw.Set("/lockkeeper/locks", nil, -1)
		if name == "rita" {
			require.ErrorIs(t, err, zk.ErrNoAuth)
		} else {
			require.NoError(t, err)
		}
	}
	err = take(ctx, named("rita"))
	require.ErrorContains(t, err, "is one of zookeeper.readers, who may read alone")
	_, err = lock.NewClient(lock.Config{
		TLS: a.tls(who["eve"]), X509: true, Operators: []string{ids["ana"]}, Contenders: []string{ids["keeper"]},
	})
	require.ErrorContains(t, err, "which this client is, is named nowhere")
	_, _, err = bare(t, addr, a.tls(who["eve"])).Get("/lockkeeper/locks")
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

func take(ctx context.Context, c *lock.Client) error {
	l, err := c.PriorityLock("cluster/orders")
	if err != nil {
		return err
	}
	g, err := l.Acquire(ctx, lock.Request{})
	if err != nil {
		return err
	}
	return g.Release(ctx)
}

// refuses waits until a client says why it refuses a server: on a busy machine a handshake may take too long as well.
func refuses(t *testing.T, addr string, cfg *tls.Config, why string) {
	t.Helper()
	c := client(t, addr, lock.Config{TLS: cfg, X509: true, ConnectTimeout: time.Second})
	var err error
	harness.Eventually(t, func() bool {
		_, _, err = c.Locks(t.Context())
		require.ErrorAs(t, err, new(*lock.UnavailableError))
		return strings.Contains(err.Error(), why)
	}, "a client says %q", why)
	require.ErrorContains(t, err, "TLS handshake with "+addr)
}

// The certificate of a server has to be for the server that was asked for, or for
// the name that the client was told.
func TestServerWithACertificateForAnotherNameIsRefused(t *testing.T) {
	a := newAuthority(t)
	addr := a.startAs(a.signFor(pkix.Name{CommonName: "server"}, []string{"zk1.example.com"}))
	keeper := a.sign(pkix.Name{CommonName: "keeper"})
	told := a.tls(keeper)
	told.ServerName = "zk1.example.com"
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	require.NoError(t, client(t, addr, lock.Config{TLS: told, X509: true}).Ready(ctx))

	elsewhere := a.tls(keeper)
	elsewhere.ServerName = "zk2.example.com"
	refuses(t, addr, a.tls(keeper), "x509: cannot validate certificate")
	refuses(t, addr, elsewhere, "x509: certificate is valid for")
	stranger := newAuthority(t)
	mistaken := told.Clone()
	mistaken.RootCAs = stranger.tls().RootCAs
	refuses(t, addr, mistaken, "certificate signed by unknown authority")
}

func TestTLSWithoutACheckOfTheServerIsRefused(t *testing.T) {
	a := newAuthority(t)
	careless, old := a.tls(), a.tls()
	careless.InsecureSkipVerify = true
	old.MinVersion = tls.VersionTLS10
	for why, cfg := range map[string]*tls.Config{"InsecureSkipVerify accepts any server": careless, "a minimum of TLS 1.0 can be broken into": old} {
		_, err := lock.NewClient(lock.Config{TLS: cfg})
		require.ErrorContains(t, err, why)
	}
}

// bare is a connection of ZooKeeper's own client.
func bare(t *testing.T, addr string, cfg *tls.Config) *zk.Conn {
	t.Helper()
	cfg.ServerName = "localhost"
	conn, _, err := zk.Connect([]string{addr}, harness.Session, zk.WithLogInfo(false), zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, cfg)
	}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func TestServersWithoutCertificateLoginAreReported(t *testing.T) {
	server := zkserver.Start(t) // without TLS
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	ana := lock.Digest{User: "ana", Password: "secret"}
	c := client(t, server.Addr(), lock.Config{Auth: &ana, Operators: []string{lock.DigestID("ana", "secret"), "x509:CN=bob"}})
	_, err := c.Overrides().Apply(ctx, incident("INC-1"))
	require.ErrorIs(t, err, zk.ErrInvalidACL)
	require.ErrorContains(t, err, "the ZooKeeper servers authenticate no client by certificate; configure their secureClientPort, or take x509 from zookeeper.operators")
}
