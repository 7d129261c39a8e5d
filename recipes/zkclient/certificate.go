package zkclient

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// certificateSubject returns the subject of the client's certificate as
// ZooKeeper's X509AuthenticationProvider names it.
func certificateSubject(cfg *tls.Config) (string, error) {
	if cfg == nil || len(cfg.Certificates) == 0 || len(cfg.Certificates[0].Certificate) == 0 {
		return "", errors.New("there is no client certificate; give one, with TLS")
	}
	certificate, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if err != nil {
		return "", fmt.Errorf("the client certificate cannot be read: %w", err)
	}
	subject, err := rfc2253(certificate.RawSubject)
	if err != nil {
		return "", fmt.Errorf("the subject of the client certificate cannot be read: %w", err)
	}
	if subject == "" {
		return "", errors.New("the client certificate has no subject, and ZooKeeper names clients by that")
	}
	return subject, nil
}

// The attributes that have a name in RFC 2253; all others are numbers there.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
	"2.5.4.9":                    "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// rfc2253 writes a name as Java's X500Principal.getName does: pkix.Name knows
// other attributes by name, and loses the order of those that it knows.
func rfc2253(der []byte) (string, error) {
	var rdns []asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &rdns); err != nil || len(rest) > 0 {
		return "", errors.Join(err, errTrailing(rest))
	}
	parts := make([]string, len(rdns))
	for i, rdn := range rdns {
		var set []struct {
			Type  asn1.ObjectIdentifier
			Value asn1.RawValue
		}
		if rest, err := asn1.UnmarshalWithParams(rdn.FullBytes, &set, "set"); err != nil || len(rest) > 0 {
			return "", errors.Join(err, errTrailing(rest))
		}
		pairs := make([]string, len(set))
		for j, a := range set {
			pairs[j] = attribute(a.Type, a.Value)
		}
		parts[len(parts)-1-i] = strings.Join(pairs, "+") // the last one first
	}
	return strings.Join(parts, ","), nil
}

func errTrailing(rest []byte) error {
	if len(rest) > 0 {
		return errors.New("something follows the name")
	}
	return nil
}

func attribute(kind asn1.ObjectIdentifier, v asn1.RawValue) string {
	name, hasName := attributeNames[kind.String()]
	var text string
	if _, err := asn1.Unmarshal(v.FullBytes, &text); !hasName || err != nil {
		if !hasName {
			name = kind.String()
		}
		return name + "=#" + hex.EncodeToString(v.FullBytes)
	}
	var b strings.Builder
	b.WriteString(name + "=")
	lead, trail := len(text)-len(strings.TrimLeft(text, " ")), len(strings.TrimRight(text, " "))
	for i, r := range text {
		if strings.ContainsRune(`,=+<>#;"\`, r) || r == ' ' && (i < lead || i >= trail) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
