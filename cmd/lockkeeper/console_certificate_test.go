package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
)

// issue writes a certificate with a serial number, and its key, as of a time.
func issue(t *testing.T, files config.ConsoleTLS, serial int64, at time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "console"},
		NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour), DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	put(t, files.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), at)
	put(t, files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), at)
}

func put(t *testing.T, name string, content []byte, at time.Time) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, content, 0o600))
	require.NoError(t, os.Chtimes(name, at, at))
}

func certificateFiles(t *testing.T) config.ConsoleTLS {
	dir := t.TempDir()
	return config.ConsoleTLS{CertFile: filepath.Join(dir, "console.crt"), KeyFile: filepath.Join(dir, "console.key")}
}

func TestTheCertificateOfTheConsoleIsRenewedWithItsFiles(t *testing.T) {
	files := certificateFiles(t)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &certificate{files: files, log: slog.New(slog.NewTextHandler(&log, nil))}
		start := time.Now()
		serial := func() int64 {
			t.Helper()
			is, err := c.get(nil)
			require.NoError(t, err)
			parsed, err := x509.ParseCertificate(is.Certificate[0])
			require.NoError(t, err)
			return parsed.SerialNumber.Int64()
		}
		later := func() { time.Sleep(time.Second) }

		_, err := c.get(nil)
		require.Error(t, err, "there are no files yet, and there was no certificate before")
		issue(t, files, 1, start)
		require.Equal(t, int64(1), serial())

		// New files take effect, also older ones that somebody has put back.
		later()
		issue(t, files, 2, start.Add(time.Hour))
		require.Equal(t, int64(2), serial())
		later()
		issue(t, files, 1, start)
		require.Equal(t, int64(1), serial())
		require.Empty(t, log.String())

		// Broken ones do not, and that is said.
		later()
		put(t, files.KeyFile, []byte("half a k"), start.Add(2*time.Hour))
		require.Equal(t, int64(1), serial())
		require.Contains(t, log.String(), "the certificate of the console cannot be read; the one before is used")
		require.Contains(t, log.String(), files.CertFile)
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"))
		require.Equal(t, int64(1), serial())
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "said at most once a second")
		later()
		require.NoError(t, os.Remove(files.CertFile))
		require.Equal(t, int64(1), serial())

		// Whole again.
		later()
		issue(t, files, 3, start.Add(3*time.Hour))
		require.Equal(t, int64(3), serial())

		// A certificate that is older than its key is new all the same.
		issue(t, files, 4, start.Add(time.Hour))
		require.NoError(t, os.Chtimes(files.KeyFile, start.Add(3*time.Hour), start.Add(3*time.Hour)))
		later()
		require.Equal(t, int64(4), serial())
	})
}

func TestBrowsersGetTheNewCertificateOfTheConsole(t *testing.T) {
	t.Parallel()
	files := certificateFiles(t)
	issue(t, files, 1, time.Now().Add(-time.Minute))
	s, err := listenForConsole(t.Context(), &config.Config{Console: config.Console{Listen: "127.0.0.1:0", TLS: &files}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s.server.Handler = http.NotFoundHandler()
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.listener) }()
	t.Cleanup(func() { s.close(); <-served })
	shown := func() int64 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", s.listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	require.Equal(t, int64(1), shown())

	// when
	issue(t, files, 2, time.Now())

	// then
	require.Eventually(t, func() bool { return shown() == 2 }, time.Minute, 50*time.Millisecond)
}
