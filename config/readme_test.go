package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestEverySampleInTheDocumentationIsValid(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	secret := filepath.Join(t.TempDir(), "digest")
	require.NoError(t, os.WriteFile(secret, []byte("lockkeeper:secret\n"), 0o600))
	people := consoleUsers(t)
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, sample := range samples(string(text)) {
			switch {
			case strings.Contains(sample, "expr:"), strings.Contains(sample, "apiVersion:"), strings.Contains(sample, "rule_files:"): // for Prometheus and Grafana
				continue
			case strings.HasPrefix(sample, "overrides:"): // another file, with a test of its own
				continue
			case strings.HasPrefix(sample, "  "): // a job alone
				sample = "version: 1\njobs:\n" + sample
			case !strings.HasPrefix(sample, "version:"): // a section alone
				sample = file(sample)
			}
			sample = strings.ReplaceAll(sample, "/etc/lockkeeper/lockkeeper.digest", secret)
			sample = strings.ReplaceAll(sample, "/etc/lockkeeper/console.users", people)
			sample = regexp.MustCompile(`digest:lockkeeper:\S+`).ReplaceAllString(sample, lock.DigestID("lockkeeper", "secret"))
			_, problems, warnings := parse(t, sample)
			require.Empty(t, problems, "%s:\n%s", page, sample)
			require.Empty(t, warnings, "%s:\n%s", page, sample)
		}
	}
}

// samples are the pieces of YAML in a page.
func samples(page string) []string {
	pieces := strings.Split(page, "```yaml\n")[1:]
	for i, piece := range pieces {
		pieces[i], _, _ = strings.Cut(piece, "```")
	}
	return pieces
}
