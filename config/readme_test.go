package config

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSampleInTheReadmeIsValid(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, sample, found := strings.Cut(string(readme), "```yaml\n")
	require.True(t, found)
	sample, _, _ = strings.Cut(sample, "```")

	cfg, problems, warnings := parse(t, sample)
	require.Empty(t, problems)
	require.Empty(t, warnings)
	require.Len(t, cfg.Jobs, 2)
}
