package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// freezeFile writes a file with one override that is fine.
func freezeFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "incident.yaml")
	until := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	require.NoError(t, os.WriteFile(file, []byte("overrides: [{id: INC-1, kind: freeze, match: {scope: db/*}, until: "+until+", by: ana, reason: full}]\n"), 0o600))
	return file
}

func TestOverridesOfAFileAreAppliedWithoutAConfiguration(t *testing.T) {
	f := newFortress(t, time.Minute)
	code, out, errs := f.lockkeeper(t, "override", "apply", "-f", freezeFile(t))
	require.Zero(t, code, errs)
	require.Contains(t, out, "INC-1: in force until ")
	code, out, errs = f.lockkeeper(t, "override", "ls")
	require.Zero(t, code, errs)
	require.Contains(t, out, "freeze db/*")
}

func TestWhatIsWrongWithFilesOfOverrides(t *testing.T) {
	f := newFortress(t, time.Minute)
	file := freezeFile(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"the file is not there":              {[]string{"-f", "nowhere.yaml"}, "lockkeeper: --file: nowhere.yaml is not there; name a file of overrides\n"},
		"the configuration is not there":     {[]string{"-f", file, "--config", "nowhere.yaml"}, "nowhere.yaml: the file cannot be read: "},
		"-f is forgotten":                    {[]string{file}, "is a file; write -f in front of its name\n"},
		"it ends twice":                      {[]string{"X", "--kind", "freeze", "--scope", "a", "-r", "x", "--for", "1h", "--until", "12:00"}, "lockkeeper: --for, --until: both say when it ends; leave one of them out\n"},
		"it never ends":                      {[]string{"X", "--kind", "freeze", "--scope", "a", "-r", "x"}, "lockkeeper: --for, or --until: give one of them, so that it ends\n"},
		"what follows from a mistake":        {[]string{"X", "--kind", "extend", "--lease", "5", "-r", "x", "--for", "1h"}, "lockkeeper: --lease: \"5\" has no unit; write for example 5s\nlockkeeper: see: "},
		"what follows from a wrong priority": {[]string{"X", "--kind", "cap", "--priority", "hihg", "-r", "x", "--for", "1h"}, "write 0 to 2147483646, or emergency\nlockkeeper: see: "},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := f.lockkeeper(t, append([]string{"override", "apply"}, c.args...)...)
			require.Equal(t, exitConfig, code)
			require.Empty(t, out)
			require.Contains(t, errs, c.want)
		})
	}
	require.Empty(t, f.records(t))
}

// overridesInFile writes a configuration whose overrides file is file.
func overridesInFile(t *testing.T, file string) string {
	t.Helper()
	cfg := filepath.Join(t.TempDir(), "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(cfg, []byte("version: 1\nemergency: {file: "+file+"}\njobs:\n  a: {schedule: manual, run: [x], locks: [{scope: db}]}\n"), 0o600))
	return cfg
}

func TestOverridesOfTheFileAreTakenBackThere(t *testing.T) {
	f := newFortress(t, time.Minute)
	file := freezeFile(t)
	cfg := overridesInFile(t, file)

	code, _, errs := f.lockkeeper(t, "override", "ls")
	require.Zero(t, code)
	require.Contains(t, errs, "no override is in force in ZooKeeper; name the configuration of the daemons (-f)")
	code, out, _ := f.lockkeeper(t, "override", "ls", "-f", cfg)
	require.Zero(t, code)
	require.Contains(t, out, "(file): full")

	code, _, errs = f.lockkeeper(t, "override", "clear", "INC-1", "-r", "x", "-f", cfg)
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "override \"INC-1\" not cleared: it is one of the file "+file+"; take it out there\n")
}

func TestWhatNobodyAsksCannotBeApproved(t *testing.T) {
	f := newFortress(t, time.Minute)
	code, _, errs := f.lockkeeper(t, "approvals", "approve", "a-17", "-r", "x")
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "there is no approval \"a-17\", or not any more")
	require.Contains(t, errs, "lockkeeper approvals ls\n")
	require.Empty(t, f.records(t), "a mistyped name is no deed")
}

func TestAuditSaysThatThereIsMore(t *testing.T) {
	f := newFortress(t, time.Minute)
	code, _, errs := f.lockkeeper(t, "override", "apply", "-f", freezeFile(t)) // two records
	require.Zero(t, code, errs)
	code, out, errs := f.lockkeeper(t, "audit", "-n", "1")
	require.Zero(t, code, errs)
	require.Contains(t, errs, "there are older records than the newest 1; -n shows more")
	require.NotContains(t, out, "is about to")
	code, out, errs = f.lockkeeper(t, "audit", "-n", "2")
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	require.Contains(t, out, "is about to")
}

func TestNoAnswerInTimeIsToTryAgainLater(t *testing.T) {
	ctx, cancel := shortly(t.Context())
	defer cancel()
	require.NoError(t, ctx.Err())
	require.Equal(t, exitNotAcquired, exitCode(noAnswer(ledgerPatience)))
	var errs bytes.Buffer
	p := &program{stderr: &errs}
	require.Equal(t, exitNotAcquired, p.exit(fmt.Errorf("approvals: %w", noAnswer(ledgerPatience))))
	require.Equal(t, "lockkeeper: approvals: no answer from ZooKeeper within 5s; check that the servers run and can be reached from here: lockkeeper doctor\n", errs.String())
	require.EqualError(t, noAnswer(ledgerPatience), "no answer from ZooKeeper within 5s")
}
