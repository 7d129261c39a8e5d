package temporal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientIsMadeWithoutAServer(t *testing.T) {
	for name, o := range map[string]Options{
		"by default":    {},
		"with all":      {Address: "127.0.0.1:1", Namespace: "orders", Identity: "me", TLS: &TLS{ServerName: "other"}},
		"without a tls": {Address: "[::1]:7233"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := NewClient(o)
			require.NoError(t, err)
			client.Close()
		})
	}
}

func TestOptionsValidateTellsAllAtOnce(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	empty, plain := file("empty", " \n"), file("plain", "no pem")
	o := Options{Address: "temporal.example.com", Namespace: " a", APIKeyFile: empty, TLS: &TLS{CAFile: plain, CertFile: plain}}
	err := o.Validate()
	require.EqualError(t, err, strings.Join([]string{
		`lockkeeper: address: "temporal.example.com" is no host and port; write them such as temporal.example.com:7233`,
		`lockkeeper: namespace: " a" has white space at its ends; write "a"`,
		`lockkeeper: api_key_file: ` + empty + ` is empty; write the key into it`,
		`lockkeeper: tls.ca_file: ` + plain + ` has no certificate in it; write a file in PEM`,
		`lockkeeper: tls.key_file: is missing; write the key that goes with cert_file`,
	}, "\n"))
	_, made := NewClient(o)
	require.Equal(t, err, made)

	for says, o := range map[string]Options{
		"api_key_file: the key would be sent in the clear": {APIKeyFile: plain},
		"tls.cert_file: is missing":                        {TLS: &TLS{KeyFile: plain}},
		"tls.cert_file: tls: failed to find any PEM data":  {TLS: &TLS{CertFile: plain, KeyFile: plain}},
		"tls.ca_file: open ":                               {TLS: &TLS{CAFile: filepath.Join(dir, "none")}},
		`address: "a:0" is no host and port`:               {Address: "a:0"},
		`address: ":7233" is no host and port`:             {Address: ":7233"},
	} {
		require.ErrorContains(t, o.Validate(), says)
	}
}
