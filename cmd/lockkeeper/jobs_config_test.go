package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// daemonsFile writes a configuration with the credentials of the daemons.
func daemonsFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "daemon.digest"), []byte("daemon:secret\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ana.digest"), []byte("ana:hers\n"), 0o600))
	file := filepath.Join(dir, "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
version: 1
zookeeper: {servers: "zk1:2181", auth: {digest_file: daemon.digest}}
jobs:
  a: {schedule: manual, run: [x], locks: [{scope: db}]}
`), 0o600))
	return file
}

func TestOperatorsActUnderTheirOwnName(t *testing.T) {
	file := daemonsFile(t)
	beside := func(name string) string { return filepath.Join(filepath.Dir(file), name) }
	for name, c := range map[string]struct{ environment, flag, want string }{
		"neither says who it is":        {"", "", "daemon"},
		"the shell says it":             {beside("ana.digest"), "", "ana"},
		"the flag goes before it":       {beside("daemon.digest"), beside("ana.digest"), "ana"},
		"the flag goes before the file": {"", beside("ana.digest"), "ana"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LOCKKEEPER_ZK_DIGEST_FILE", c.environment)
			p := &program{stderr: io.Discard}
			p.zookeeper.digestFile = c.flag
			cfg, client, err := p.jobsConfig(&cobra.Command{}, jobsFile{name: file})
			require.NoError(t, err)
			require.NotNil(t, cfg)
			require.Equal(t, []string{"zk1:2181"}, client.Servers)
			require.Equal(t, c.want, client.Auth.User)
		})
	}
}

func TestPeopleWithACertificateDoNotActAsTheDaemons(t *testing.T) {
	file := daemonsFile(t)
	t.Setenv("LOCKKEEPER_ZK_X509", "true")
	p := &program{stderr: io.Discard}
	_, client, err := p.jobsConfig(&cobra.Command{}, jobsFile{name: file})
	require.ErrorContains(t, err, "certificate") // which is missing here
	require.Nil(t, client.Auth)
}
