package zkclient

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

const (
	anaID = "digest:ana:2Gf0ZBVfyTw7ZCCZr+QbjuRWOfU="
	bobID = "digest:bob:rMKyOCRxdhHpJCqMJDSFKm1rGmU="
)

func TestDigestIDIsThatOfZooKeepersAccessLists(t *testing.T) {
	acl := zk.DigestACL(zk.PermAll, "ana", "se:cret")
	require.Equal(t, "digest:"+acl[0].ID, DigestID("ana", "se:cret"))
}

func TestClientKnowsWhoItIsAndForWhomItCreatesNodes(t *testing.T) {
	operators := []string{anaID, "x509:CN=ops,O=example", anaID}
	world := zk.WorldACL(zk.PermAll)
	x509Config := &tls.Config{Certificates: []tls.Certificate{clientCertificate(t, pkix.Name{CommonName: "worker", Organization: []string{"example"}})}, MinVersion: tls.VersionTLS12}
	for name, test := range map[string]struct {
		cfg      Config
		identity string
		acl      []zk.ACL
		operator bool
	}{
		"none":            {Config{}, "", world, false},
		"none, operators": {Config{Operators: operators}, "", world, false},
		"digest":          {Config{Auth: &Digest{User: "ana", Password: "secret"}}, "digest:ana", zk.AuthACL(zk.PermAll), true},
		"digest, no operator": {
			Config{Auth: &Digest{User: "bob", Password: "secret"}, Operators: operators},
			"digest:bob",
			[]zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}, {Perms: zk.PermAll, Scheme: "digest", ID: anaID[7:]}, {Perms: zk.PermAll, Scheme: "x509", ID: "CN=ops,O=example"}},
			false,
		},
		"digest, one operator": {
			Config{Auth: &Digest{User: "ana", Password: "secret"}, Operators: []string{DigestID("ana", "secret")}}, "digest:ana", zk.AuthACL(zk.PermAll), true,
		},
		"wrong password": {
			Config{Auth: &Digest{User: "ana", Password: "wrong"}, Operators: []string{DigestID("ana", "secret")}},
			"digest:ana",
			[]zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}, {Perms: zk.PermAll, Scheme: "digest", ID: DigestID("ana", "secret")[7:]}},
			false,
		},
		"x509":                                 {Config{TLS: x509Config, X509: true}, "x509:CN=worker,O=example", zk.AuthACL(zk.PermAll), true},
		"x509 that the servers do not look at": {Config{TLS: x509Config}, "", world, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := test.cfg
			require.NoError(t, cfg.complete())
			c := &Client{cfg: cfg}
			c.identify()
			require.Equal(t, test.identity, c.Identity())
			require.Equal(t, test.acl, c.who().acl)
			require.Equal(t, test.operator, c.requireOperator("x") == nil)
			require.Equal(t, test.identity != "", c.requireIdentity("x") == nil)
		})
	}
}

func TestEveryBadIdentityIsReported(t *testing.T) {
	for _, s := range []string{"", "ana", "digest:ana", "digest:ana:secret", "digest::2Gf0ZBVfyTw7ZCCZr+QbjuRWOfU=", "x509:ana", "x509:CN=a\nb", "world:anyone", "ip:10.0.0.1", "auth:", "sasl:ana"} {
		err := Config{Operators: []string{anaID, s}}.Validate()
		var bad *RequestError
		require.ErrorAs(t, err, &bad, s)
		require.Equal(t, "operators", bad.Field)
		require.Contains(t, bad.Reason, `write "digest:USER:HASH"`)
	}
	err := Config{X509: true, Auth: &Digest{User: "ana", Password: "secret"}}.Validate()
	require.ErrorContains(t, err, "x509: the client has a digest user already")
	require.ErrorContains(t, err, "x509: there is no client certificate")
	nameless := &tls.Config{Certificates: []tls.Certificate{clientCertificate(t, pkix.Name{})}, MinVersion: tls.VersionTLS12}
	require.ErrorContains(t, Config{X509: true, TLS: nameless}.Validate(), "has no subject")
}

func TestIdentityErrorsSayWhatToDo(t *testing.T) {
	require.EqualError(t, (&Client{}).requireIdentity("lock not broken"),
		"lock not broken: this client has no credentials, so no record could name it; "+
			"give some (zookeeper.auth, or --zk-digest-file)")
	cfg := Config{Auth: &Digest{User: "bob", Password: "secret"}, Operators: []string{anaID, "x509:CN=ops"}}
	c := &Client{cfg: cfg}
	c.identify()
	require.EqualError(t, c.requireOperator("override not applied"),
		"override not applied: digest:bob is none of the operators (digest:ana, x509:CN=ops); use the credentials of one (zookeeper.auth, or --zk-digest-file), or add digest:bob to zookeeper.operators")
}

// The texts are what Java's X500Principal.getName has made of these names.
func TestSubjectsAreNamedAsZooKeeperNamesThem(t *testing.T) {
	for want, name := range map[string]pkix.RDNSequence{
		"CN=ana,O=example": {{attr("2.5.4.10", "example")}, {attr("2.5.4.3", "ana")}},
		`CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j,OU=two words`: {{attr("2.5.4.11", "two words")}, {attr("2.5.4.3", `a,b+c"d\e<f>g;h=i#j`)}},
		`CN=\ ana\ \ `:                    {{attr("2.5.4.3", " ana  ")}},
		`CN=Jürgen`:                       {{attr("2.5.4.3", "Jürgen")}},
		"CN=ana+UID=17,DC=example,DC=org": {{attr("0.9.2342.19200300.100.1.25", "org")}, {attr("0.9.2342.19200300.100.1.25", "example")}, {attr("2.5.4.3", "ana"), attr("0.9.2342.19200300.100.1.1", "17")}},
		"2.5.4.5=#13023432,STREET=Way 1,ST=Hesse,L=Kassel,C=DE": {{attr("2.5.4.6", "DE")}, {attr("2.5.4.7", "Kassel")}, {attr("2.5.4.8", "Hesse")}, {attr("2.5.4.9", "Way 1")}, {attr("2.5.4.5", "42")}},
	} {
		der, err := asn1.Marshal(name)
		require.NoError(t, err)
		got, err := rfc2253(der)
		require.NoError(t, err)
		require.Equal(t, want, got, "%x", der)
	}
}

func attr(oid, value string) pkix.AttributeTypeAndValue {
	parsed, err := x509.ParseOID(oid)
	if err != nil {
		panic(err)
	}
	var id asn1.ObjectIdentifier
	der, _ := parsed.MarshalBinary()
	_, err = asn1.Unmarshal(append([]byte{6, byte(len(der))}, der...), &id)
	if err != nil {
		panic(err)
	}
	return pkix.AttributeTypeAndValue{Type: id, Value: value}
}

func clientCertificate(t *testing.T, subject pkix.Name) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
