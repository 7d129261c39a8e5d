package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetricsAreShownWhereTheFileSaysSo(t *testing.T) {
	for text, want := range map[string]string{
		"":                                         "",
		"metrics: {listen: '127.0.0.1:9464'}\n":    "127.0.0.1:9464",
		"metrics: {listen: '[::1]:9464'}\n":        "[::1]:9464",
		"metrics: {listen: ':0'}\n":                ":0",
		"metrics: {listen: localhost:80}\n":        "localhost:80",
		"metrics: {listen: 'localhost:${FIVE}'}\n": "localhost:5",
	} {
		require.Equal(t, Metrics{Listen: want}, mustParse(t, file(text)).Metrics)
	}
}

func TestAddressWhereNothingCanListenIsRefusedWhereItStands(t *testing.T) {
	for listen, want := range map[string]string{
		"{}":                         "2:10 metrics: listen is missing; write it like {listen: \"127.0.0.1:9464\"}",
		"{listen: 9464}":             "2:19 metrics.listen: \"9464\" is not an address: missing port in address; write host:port, for example \"127.0.0.1:9464\"",
		"{listen: '::1:9464'}":       "2:19 metrics.listen: \"::1:9464\" is not an address: too many colons in address; write host:port, for example \"127.0.0.1:9464\"",
		"{listen: 'a:65536'}":        "2:19 metrics.listen: \"a:65536\" is not an address: the port is not a number from 0 to 65535; write host:port, for example \"127.0.0.1:9464\"",
		"{listen: 'a:http'}":         "2:19 metrics.listen: \"a:http\" is not an address: the port is not a number from 0 to 65535; write host:port, for example \"127.0.0.1:9464\"",
		"{listen: 'a:9464/metrics'}": "2:19 metrics.listen: \"a:9464/metrics\" is not an address: the port is not a number from 0 to 65535; write host:port, for example \"127.0.0.1:9464\"",
		"{listen: 'http://a:9464'}":  "2:19 metrics.listen: \"http://a:9464\" is not an address: too many colons in address; write host:port, for example \"127.0.0.1:9464\"",
		"{listen: 'a b:1'}":          "2:19 metrics.listen: \"a b:1\" is not an address: the host cannot be \"a b\"; write host:port, for example \"127.0.0.1:9464\"",
		"{listen: ''}":               "2:19 metrics.listen: \"\" is empty; write host:port, for example \"127.0.0.1:9464\"",
		"{port: 9464, listen: ':1'}": "2:11 metrics: unknown field \"port\"; write it in listen, host:port",
	} {
		_, problems, _ := parse(t, file("metrics: "+listen+"\n"))
		require.Equal(t, []string{want}, problems)
	}
}

func TestAddressOfMetricsIsReadFromAFileThatHasBecomeWrongElsewhere(t *testing.T) {
	env := func(name string) (string, bool) { return "9464", name == "PORT" }
	for text, want := range map[string]string{
		file("metrics: {listen: '127.0.0.1:${PORT}'}\n"):                               "127.0.0.1:9464",
		"metrics: {listen: ':1'}\njobs: {a: {schedule: never}}\n":                      ":1",
		"metrics: {listen: ':1'}\nzookeeper: {servers: '${UNSET}'}\nunknown: true\n":   ":1",
		"metrics: {listen: ':1'}\njobs:\n  a: {schedule: [\n  b: {schedule: manual}\n": ":1",
		file(""): "",
	} {
		name := filepath.Join(t.TempDir(), "lockkeeper.yaml")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		m, err := LoadMetrics(name, Options{Env: env})
		require.NoError(t, err, text)
		require.Equal(t, want, m.Listen, text)
	}
}

func TestAddressOfMetricsThatCannotBeReadIsAnError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lockkeeper.yaml")
	_, err := LoadMetrics(name, Options{})
	require.ErrorContains(t, err, "the file cannot be read")
	for text, want := range map[string]string{
		"metrics: {listen: '${UNSET}:1'}\n": "1:19 metrics.listen: the environment variable UNSET is not set",
		"metrics: {listen: '1'}\n":          "1:19 metrics.listen: \"1\" is not an address",
		"metrics: [":                        "1:",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := LoadMetrics(name, Options{Env: func(string) (string, bool) { return "", false }})
		require.ErrorContains(t, err, name+":", text)
		require.ErrorContains(t, err, want[2:], text)
	}
}
