package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperatorsAreSplitAtSemicolons(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                   nil,
		" ; ":                                nil,
		"digest:a:b":                         {"digest:a:b"},
		"x509:CN=ana,O=example; digest:a:b;": {"x509:CN=ana,O=example", "digest:a:b"},
		`x509:CN=a\;b;x509:CN=c`:             {`x509:CN=a\;b`, "x509:CN=c"},
	} {
		require.Equal(t, want, splitOperators(text), text)
	}
}
