package config

import (
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

func TestAnotherAddressNeedsARestart(t *testing.T) {
	diff := Compare(mustParse(t, file("")), mustParse(t, file("metrics: {listen: ':1'}\n")))
	require.Equal(t, "~ metrics.listen (nothing → :1)", diff.String())
	require.ErrorContains(t, diff.needsRestart(nil), "metrics.listen (nothing → :1) cannot change while the daemon runs")
}
