package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEverythingLinkedHasALicenceThatIsKnown(t *testing.T) {
	all, err := linked()
	require.NoError(t, err)
	var text strings.Builder

	require.NoError(t, write(&text, all))

	require.Greater(t, len(all), 20)
	for name, want := range map[string]bool{
		"Go go1.": true, "github.com/go-zookeeper/zk v": true, "github.com/spf13/cobra v": true, "go.opentelemetry.io/otel v": true,
		"pgregory.net/rapid v": false, // of tests
	} {
		require.Equal(t, want, strings.Contains(text.String(), "\n"+name), name)
	}
}

func TestModuleWithoutAKnownLicenceIsRefused(t *testing.T) {
	for _, c := range []struct{ name, file, text, refused string }{
		{"none", "README", "MIT", "m v1 has no file LICENSE"},
		{"unknown", "LICENSE", "You may look at this.", "m v1 has a licence of a kind that is not known here"},
		{"another name", "COPYING.txt", "Permission is hereby granted, free of charge,\nto any person obtaining a copy", ""},
		{"with a notice", "NOTICE", "Apache License\n Version 2.0, January 2004", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))

			text, err := module{"m", "v1", dir}.licence()

			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.text+"\n", text)
		})
	}
}
