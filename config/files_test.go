package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// load writes files beside a configuration and loads that.
func load(t *testing.T, text string, files map[string]string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	name := filepath.Join(dir, "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return Load(name, Options{})
}

func TestDigestFileHasUserAndPassword(t *testing.T) {
	text := file("zookeeper: {auth: {digest_file: zk}}\n")
	for content, want := range map[string]*lock.Digest{
		"user:password":       {User: "user", Password: "password"},
		"user:pass:word\n":    {User: "user", Password: "pass:word"},
		"user: password \r\n": {User: "user", Password: " password "},
	} {
		cfg, err := load(t, text, map[string]string{"zk": content})
		require.NoError(t, err)
		require.Equal(t, want, cfg.Client.Auth)
	}
	for _, content := range []string{"", "user", "user:", ":password", "user:password\nother:password\n"} {
		_, err := load(t, text, map[string]string{"zk": content})
		require.ErrorContains(t, err, "yaml:2:33 zookeeper.auth.digest_file: the file does not have the form user:password; write one line into it, user:password", "%q", content)
		require.NotContains(t, err.Error(), "other", "what is in a secret is not for logs")
	}
}

func TestFilesThatCannotBeReadAreProblemsWhereTheyAreNamed(t *testing.T) {
	_, err := load(t, file("zookeeper: {auth: {digest_file: nothing}, tls: {ca_file: ., cert_file: c, key_file: k}}\n"), map[string]string{"k": ""})
	require.ErrorContains(t, err, "yaml:2:33 zookeeper.auth.digest_file: ")
	require.ErrorContains(t, err, `nothing" cannot be read: no such file or directory; name a file that this user can read`)
	require.ErrorContains(t, err, "yaml:2:58 zookeeper.tls.ca_file: ")
	require.ErrorContains(t, err, "cannot be read: is a directory")
	require.ErrorContains(t, err, "yaml:2:72 zookeeper.tls.cert_file: ")
	require.NotContains(t, err.Error(), "key_file")

	_, err = load(t, file("zookeeper: {auth: {}}\n"), nil)
	require.ErrorContains(t, err, "yaml:2:19 zookeeper.auth: digest_file is missing; write {digest_file: FILE}, where FILE has user:password in it")
}

func TestOperatorsAreNamedAsZooKeeperNamesThem(t *testing.T) {
	ana, ops := lock.DigestID("ana", "secret"), "x509:CN=ops,O=example"
	cfg, err := load(t, file("zookeeper: {operators: ["+ana+", \""+ops+"\"]}\n"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{ana, ops}, cfg.Client.Operators)

	_, err = load(t, file("zookeeper: {operators: ["+ana+", digest:bob:secret, ops]}\n"), nil)
	require.ErrorContains(t, err, `zookeeper.operators[1]: "digest:bob:secret" does not name a digest user with the hash of the password; write "digest:USER:HASH" (see lockkeeper config operator) or "x509:SUBJECT"`)
	require.ErrorContains(t, err, `zookeeper.operators[2]: "ops" has no scheme that is known; write`)
}

func TestDaemonIsKnownByItsCertificate(t *testing.T) {
	cert, key := selfSigned(t)
	files := map[string]string{"c": cert, "k": key, "zk": "ana:secret"}
	cfg, err := load(t, file("zookeeper: {auth: {x509: true}, tls: {cert_file: c, key_file: k}}\n"), files)
	require.NoError(t, err)
	require.True(t, cfg.Client.X509)
	cfg, err = load(t, file("zookeeper: {auth: {x509: false, digest_file: zk}}\n"), files)
	require.NoError(t, err)
	require.False(t, cfg.Client.X509)

	for text, want := range map[string]string{
		"auth: {x509: true}":                           "yaml:2:19 zookeeper.auth: x509 needs the certificate of the daemon; name cert_file and key_file in zookeeper.tls",
		"auth: {x509: true}, tls: {}":                  "zookeeper.auth: x509 needs the certificate of the daemon; name cert_file and key_file in zookeeper.tls",
		"auth: {x509: false}":                          "zookeeper.auth: digest_file is missing; write {digest_file: FILE}, where FILE has user:password in it",
		"auth: {x509: true, digest_file: zk}, tls: {}": "yaml:2:26 zookeeper.auth.x509: the daemon has a digest user already; write one of the two, x509 or digest_file",
	} {
		_, err := load(t, file("zookeeper: {"+text+"}\n"), files)
		require.ErrorContains(t, err, want)
	}
}

func TestHugeFilesAreNotRead(t *testing.T) {
	huge := filepath.Join(t.TempDir(), "huge")
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, maxSize+1))

	_, err := Load(huge, Options{})
	require.EqualError(t, err, huge+": the file cannot be read: has 4194305 bytes, more than 4194304; name a smaller file")

	_, err = load(t, file("zookeeper: {auth: {digest_file: "+huge+"}}\n"), nil)
	require.ErrorContains(t, err, "has 4194305 bytes, more than 4194304")
}

func TestDevicesAreNotReadForEver(t *testing.T) {
	_, err := Load("/dev/zero", Options{})
	require.EqualError(t, err, "/dev/zero: the file cannot be read: has more than 4194304 bytes; name a smaller file")
}

func TestPipeOfAShellIsRead(t *testing.T) {
	// given
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString(file(""))
	require.NoError(t, err)
	require.NoError(t, w.Close())

	// when
	cfg, err := Load(fmt.Sprintf("/dev/fd/%d", r.Fd()), Options{})

	// then
	require.NoError(t, err)
	require.Empty(t, cfg.Warnings)
}

func TestTLSFiles(t *testing.T) {
	cert, key := selfSigned(t)
	files := map[string]string{"cert": cert, "key": key, "other": "nothing"}

	cfg, err := load(t, file("zookeeper: {tls: {ca_file: cert, cert_file: cert, key_file: key, server_name: zk}}\n"), files)
	require.NoError(t, err)
	require.Equal(t, "zk", cfg.Client.TLS.ServerName)
	require.NotNil(t, cfg.Client.TLS.RootCAs)
	require.Len(t, cfg.Client.TLS.Certificates, 1)
	require.False(t, cfg.Client.TLS.InsecureSkipVerify)
	require.EqualValues(t, tls.VersionTLS12, cfg.Client.TLS.MinVersion)

	cfg, err = load(t, file("zookeeper: {tls: {}}\n"), files)
	require.NoError(t, err)
	require.NotNil(t, cfg.Client.TLS, "an empty mapping is TLS with the system's authorities")
	require.Nil(t, cfg.Client.TLS.RootCAs)

	for text, want := range map[string]string{
		"{ca_file: other}":                     "2:28 zookeeper.tls.ca_file: there is no certificate in the file; name a file with certificates in PEM form",
		"{cert_file: cert}":                    "2:30 zookeeper.tls.cert_file: key_file is missing beside it; name the file with the private key as well",
		"{key_file: key}":                      "2:29 zookeeper.tls.key_file: cert_file is missing beside it; name the file with the certificate as well",
		"{cert_file: cert, key_file: other}":   "2:30 zookeeper.tls.cert_file: no certificate and key: failed to find any PEM data in key input; name a certificate and its private key, both in PEM form",
		"{insecure: true}":                     `2:19 zookeeper.tls: unknown field "insecure"; there is no such setting: name the certificate authority in ca_file`,
		"true":                                 `2:18 zookeeper.tls: "true" is not a mapping; write {ca_file: FILE}, or {} for the certificate authorities of the system`,
		"{ca_file: cert, server_name: [a, b]}": "2:47 zookeeper.tls.server_name: a list cannot stand here; write the name in the servers' certificates",
	} {
		_, err := load(t, file("zookeeper: {tls: "+text+"}\n"), files)
		require.ErrorContains(t, err, want)
	}
}

func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "daemon"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER)
}
