package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
)

var tlsShape = shape{
	name:    "zookeeper.tls",
	example: "write {ca_file: FILE}, or {} for the certificate authorities of the system",
	keys: []key{
		apart("ca_file", aFile, "", "The certificate authorities to trust, in PEM form; without it, those of the system."),
		apart("cert_file", aFile, "", "The certificate of the daemon, in PEM form."),
		apart("key_file", aFile, "", "The private key of that certificate, in PEM form."),
		apart("server_name", aText, "", "The name in the servers' certificates, if it is not their host name."),
	},
	hints: map[string]string{
		"insecure":             "there is no such setting: name the certificate authority in ca_file",
		"insecure_skip_verify": "there is no such setting: name the certificate authority in ca_file",
		"enabled":              "remove it; tls: {} is enough",
	},
}

func (r *reader) tls(v value) *tls.Config {
	o, ok := r.optional(v, &tlsShape)
	if !ok {
		return nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if v := o.get("server_name"); v.exists() {
		cfg.ServerName, _ = r.text(v, "write the name in the servers' certificates")
	}
	if v := o.get("ca_file"); v.exists() {
		if pem, ok := r.file(v); ok {
			cfg.RootCAs = x509.NewCertPool()
			if !cfg.RootCAs.AppendCertsFromPEM(pem) {
				r.problem(v, "there is no certificate in the file", "name a file with certificates in PEM form")
			}
		}
	}
	if pair, ok := r.certificate(o); ok {
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// certificate reads the files of a certificate and its key, if both are there.
func (r *reader) certificate(o object) (pair tls.Certificate, ok bool) {
	cert, key := o.get("cert_file"), o.get("key_file")
	if !r.pair(o) || !cert.exists() || !key.exists() {
		return pair, false
	}
	certPEM, okCert := r.file(cert)
	keyPEM, okKey := r.privateFile(key)
	if !okCert || !okKey {
		return pair, false
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		r.problem(cert, fmt.Sprintf("no certificate and key: %s", strings.TrimPrefix(err.Error(), "tls: ")),
			"name a certificate and its private key, both in PEM form")
	}
	return pair, err == nil
}

// pair reports whether a certificate and its key are both there, or neither.
func (r *reader) pair(o object) bool {
	switch cert, key := o.has("cert_file"), o.has("key_file"); {
	case cert && !key:
		r.missing(o.get("cert_file"), "key_file is missing beside it", "name the file with the private key as well")
	case key && !cert:
		r.missing(o.get("key_file"), "cert_file is missing beside it", "name the file with the certificate as well")
	default:
		return true
	}
	return false
}
