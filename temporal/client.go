package temporal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// DefaultAddress is where a Temporal server is sought.
const DefaultAddress = "localhost:7233"

// Options say how to talk to a Temporal server.
type Options struct {
	// Address is host:port of its frontend. Defaults to DefaultAddress.
	Address string

	// APIKeyFile names a file with the key that proves who we are, as Temporal
	// Cloud wants it; it needs TLS. It is read again for each request, so that the
	// key can be changed. Defaults to none.
	APIKeyFile string

	// Identity is what the server knows us by. Defaults to pid@host.
	Identity string

	// Logger is for what the client has to say. Defaults to silence.
	Logger *slog.Logger

	// Namespace defaults to "default".
	Namespace string

	// TLS, unless nil, encrypts the connection. Defaults to nil: in the clear.
	TLS *TLS
}

// TLS says how to encrypt a connection. The zero TLS trusts the certificate
// authorities of the system.
type TLS struct {
	// CAFile names a file with the certificates to trust, in PEM, in place of
	// those of the system.
	CAFile string

	// CertFile and KeyFile name files with our certificate and its key, in PEM.
	// They are read again for each connection, so that they can be renewed.
	// Default to none.
	CertFile, KeyFile string

	// ServerName is what the certificate of the server is for. Defaults to the
	// host of the address.
	ServerName string
}

// Validate returns everything that is wrong with o, joined (errors.Join); each
// problem is a *lockguard.RequestError. It reads the files, and does not talk
// to the server.
func (o Options) Validate() error {
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, &lockguard.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}

	if o.Address != "" {
		host, port, err := net.SplitHostPort(o.Address)
		n, portErr := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || portErr != nil || n == 0 {
			refuse("address", "%q is no host and port; write them such as temporal.example.com:7233", o.Address)
		}
	}
	if o.Namespace != strings.TrimSpace(o.Namespace) {
		refuse("namespace", "%q has white space at its ends; write %q", o.Namespace, strings.TrimSpace(o.Namespace))
	}
	if o.APIKeyFile != "" {
		if _, err := readKey(o.APIKeyFile); err != nil {
			refuse("api_key_file", "%v", err)
		}
		if o.TLS == nil {
			refuse("api_key_file", "the key would be sent in the clear; write tls, too")
		}
	}
	if o.TLS != nil {
		o.TLS.refuse(refuse)
	}
	return errors.Join(problems...)
}

func (t *TLS) refuse(refuse func(field, format string, args ...any)) {
	if t.CAFile != "" {
		if _, err := readCAs(t.CAFile); err != nil {
			refuse("tls.ca_file", "%v", err)
		}
	}
	switch {
	case t.CertFile == "" && t.KeyFile == "":
	case t.CertFile == "":
		refuse("tls.cert_file", "is missing; write the certificate that goes with key_file")
	case t.KeyFile == "":
		refuse("tls.key_file", "is missing; write the key that goes with cert_file")
	default:
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			refuse("tls.cert_file", "%v", err)
		}
	}
}

// A Connection is what NewClient returns: a client of the SDK.
type Connection = client.Client

// NewClient returns a client that connects when it is first used, so that a
// server that is away does not prevent the start. Close it when no work uses it
// any more. The error is that of Validate.
func NewClient(o Options) (client.Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	options := client.Options{
		HostPort:  o.Address,
		Identity:  o.Identity,
		Logger:    log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		Namespace: o.Namespace,
	}
	if o.Logger != nil {
		options.Logger = log.NewStructuredLogger(o.Logger)
	}
	if o.TLS != nil {
		config, err := o.TLS.config()
		if err != nil {
			return nil, err
		}
		options.ConnectionOptions.TLS = config
	}
	if o.APIKeyFile != "" {
		options.Credentials = client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) {
			return readKey(o.APIKeyFile)
		})
	}
	lazy, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("temporal client for %s cannot be made: %w", o.Address, err)
	}
	return lazy, nil
}

func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		authorities, err := readCAs(t.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = authorities
	}
	if t.CertFile != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &pair, err
		}
	}
	return config, nil
}

func readCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in it; write a file in PEM", file)
	}
	return authorities, nil
}

func readKey(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("%s is empty; write the key into it", file)
	}
	return key, nil
}
