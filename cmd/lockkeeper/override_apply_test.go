package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
)

// freezeFile writes a file with one override that is fine.
func freezeFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "incident.yaml")
	until := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	require.NoError(t, os.WriteFile(file, []byte("overrides: [{id: INC-1, kind: freeze, match: {scope: db/*}, until: "+until+", by: ana, reason: full}]\n"), 0o600))
	return file
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
		"what follows from a mistake":        {[]string{"X", "--kind", "extend", "--scope", "a", "--lease", "5", "-r", "x", "--for", "1h"}, "lockkeeper: --lease: \"5\" has no unit; write for example 5s\nlockkeeper: see: "},
		"what follows from a wrong priority": {[]string{"X", "--kind", "cap", "--all", "--priority", "hihg", "-r", "x", "--for", "1h"}, "write 0 to 2147483646, or emergency\nlockkeeper: see: "},
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

func TestOverrideForEverythingIsAppliedWhenThatIsSaid(t *testing.T) {
	f := newFortress(t, time.Minute)
	for _, kind := range [][]string{{"freeze"}, {"pause"}, {"boost", "--priority", "5"}, {"cap", "--priority", "5"}, {"extend", "--lease", "1h"}} {
		for _, whom := range [][]string{nil, {"--below", "10"}, {"--scope", ""}, {"--scope", "*"}, {"--job", "*"}, {"--scope", "*", "--job", "**"}} {
			if kind[0] == "pause" && len(whom) > 0 && whom[0] != "--job" {
				continue // a pause has neither scope nor priority
			}
			args := append([]string{"override", "apply", "X", "--for", "10s", "-r", "x", "--kind"}, kind...)
			for _, more := range [][]string{nil, {"--dry-run"}, {"--yes"}} {
				code, out, errs := f.lockkeeper(t, append(append(args, whom...), more...)...)
				require.Equal(t, exitConfig, code, args)
				require.Empty(t, out)
				require.Contains(t, errs, "lockkeeper: --all is missing: neither --scope nor --job nor --label limits this "+kind[0]+", and it would match everything; give one of them, or --all\n")
			}
			out := f.shows(t, append(append(args, whom...), "--all", "--dry-run")...)
			require.Contains(t, out, "nothing was applied: --dry-run")
		}
	}
	for _, whom := range [][]string{{"--scope", "db/*"}, {"--job", "batch"}, {"--label", "a=b"}} {
		f.shows(t, append([]string{"override", "apply", "X", "--for", "10s", "-r", "x", "--kind", "freeze", "--dry-run"}, whom...)...)
		code, _, errs := f.lockkeeper(t, append([]string{"override", "apply", "X", "--for", "10s", "-r", "x", "--kind", "freeze", "--all"}, whom...)...)
		require.Equal(t, exitConfig, code)
		require.Contains(t, errs, "lockkeeper: --all: --scope, --job or --label says that it matches less; leave that out, or --all\n")
	}
	require.Empty(t, f.records(t))

	// when
	out := f.shows(t, "override", "apply", "X", "--for", "10s", "-r", "x", "--kind", "freeze", "--all")

	// then
	require.Contains(t, out, "X: in force until ")
}

func TestFileThatConcernsEverythingGoesOnWorkingAndSaysSo(t *testing.T) {
	f := newFortress(t, time.Minute)
	file := filepath.Join(t.TempDir(), "incident.yaml")
	until := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	require.NoError(t, os.WriteFile(file, []byte("overrides: [{id: INC-1, kind: freeze, until: "+until+", by: ana, reason: full}]\n"), 0o600))
	const told = `warning: "INC-1" (freeze) concerns every request of every job: match has neither scope nor job nor labels; leave it if that is meant`

	code, _, errs := f.lockkeeper(t, "config", "validate", "-f", overridesInFile(t, file))
	require.Zero(t, code, errs)
	require.Contains(t, errs, told)
	code, out, errs := f.lockkeeper(t, "override", "apply", "-f", file)
	require.Zero(t, code, errs)
	require.Contains(t, errs, told)
	require.Contains(t, out, "INC-1: in force until ")
}

func TestQuestionNamesHowManyAnOverrideForEverythingMeets(t *testing.T) {
	view := func(id string, kind override.Kind, scope string, n int) appliedView {
		return appliedView{Record: override.Override{ID: id, Kind: kind, Match: override.Match{Scope: scope}}.Record(), Concerns: make([]concern, n)}
	}
	require.Empty(t, whetherForAll([]appliedView{view("A", override.Freeze, "db/*", 3), view("B", override.Hold, "db", 1)}))
	require.Equal(t, "A (freeze) matches everything: 12 requests now, and later ones. Apply it?", whetherForAll([]appliedView{view("A", override.Freeze, "", 12)}))
	require.Equal(t, "A (freeze) matches everything: 1 request now, and later ones; B (pause) matches everything: 0 jobs, and later ones. Apply it?",
		whetherForAll([]appliedView{view("A", override.Freeze, "*", 1), view("C", override.Freeze, "db", 2), view("B", override.Pause, "", 0)}))
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

func TestAuditSaysThatThereIsMore(t *testing.T) {
	f := newFortress(t, time.Minute)
	f.shows(t, "override", "apply", "-f", freezeFile(t)) // two records
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
