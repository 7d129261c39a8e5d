package config

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

var firstFile = Template{
	Servers: "zk1:2181,zk2:2181/chroot", Job: "compact", Schedule: "*/5 * * * *",
	Run: []string{"sh", "-c", `echo "${HOME} $LOCKKEEPER_TOKEN" # 'it' \n`, "yes", "1", ""}, Scope: "cluster/orders",
}

func TestTemplateIsAFileThatSaysWhatWasGiven(t *testing.T) {
	text, err := firstFile.Text()
	require.NoError(t, err)

	cfg, err := Parse("lockkeeper.yaml", text, Options{})

	require.NoError(t, err, string(text))
	require.Empty(t, cfg.Warnings)
	require.Equal(t, []string{"zk1:2181", "zk2:2181"}, cfg.Client.Servers)
	require.Equal(t, "/chroot", cfg.Client.Chroot)
	require.Len(t, cfg.Jobs, 1)
	require.Equal(t, "compact", cfg.Jobs[0].Name)
	require.Equal(t, firstFile.Run, cfg.Jobs[0].Work.(*jobs.Command).Argv)
	require.Equal(t, "cluster/orders", cfg.Jobs[0].Requirements[0].Scope)
	require.Contains(t, string(text), "    # When the job runs:")
}

// What stands there as a comment works without its mark, and most of it is the default.
func TestOptionsOfTemplateWorkWithoutTheirMarks(t *testing.T) {
	text, err := firstFile.Text()
	require.NoError(t, err)
	option := regexp.MustCompile(`(?m)^( *)#([a-z_]+:)`)
	require.GreaterOrEqual(t, len(option.FindAll(text, -1)), 6)

	cfg, err := Parse("lockkeeper.yaml", option.ReplaceAll(text, []byte("$1$2")), Options{})

	require.NoError(t, err)
	without, err := Parse("lockkeeper.yaml", text, Options{})
	require.NoError(t, err)
	require.Equal(t, without.Client.SessionTimeout, cfg.Client.SessionTimeout)
	require.Equal(t, "/lockkeeper", cfg.Client.Root)
	require.Equal(t, without.Jobs[0].Requirements, cfg.Jobs[0].Requirements)
	require.Equal(t, time.Hour, cfg.Jobs[0].Timeout)
}

func TestTemplateRefusesWhatNoFileCanHave(t *testing.T) {
	for _, c := range []struct {
		path  string
		wrong func(t *Template)
	}{
		{"zookeeper.servers", func(t *Template) { t.Servers = "zk1:port" }},
		{"jobs[a b]", func(t *Template) { t.Job = "a b" }},
		{"jobs[compact].schedule", func(t *Template) { t.Schedule = "sometimes" }},
		{"jobs[compact].run", func(t *Template) { t.Run = nil }},
		{"jobs[compact].locks[0].scope", func(t *Template) { t.Scope = "/a//b" }},
	} {
		t.Run(c.path, func(t *testing.T) {
			template := firstFile
			c.wrong(&template)

			_, err := template.Text()

			broken, ok := errors.AsType[*Errors](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.path, broken.Problems[0].Path)
		})
	}
}
