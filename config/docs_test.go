package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
)

// The tables of the reference are made of the shapes.
func TestReferenceHasEveryKey(t *testing.T) {
	requireReference(t, "../docs/config.md", places)
	requireReference(t, "../docs/overrides.md", overridePlaces)
}

func requireReference(t *testing.T, name string, places []place) {
	t.Helper()
	const begin, end = "<!-- keys: go test ./config -update -->\n", "<!-- end of keys -->"
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	tables, after, found := strings.Cut(rest, end)
	require.True(t, found)

	var want strings.Builder
	for _, place := range places {
		fmt.Fprintf(&want, "\n### %s\n\n|key|value|default|meaning|\n|---|---|---|---|\n", heading(place.shape))
		for _, k := range place.shape.keys {
			name, without := "`"+k.name+"`", ""
			if slices.Contains(place.shape.must(), k.name) {
				without = "must be there"
			} else if k.without != "" {
				without = "`" + k.without + "`"
			}
			fmt.Fprintf(&want, "|%s|%s|%s|%s|\n", name, describeKind(k.kind), without, strings.ReplaceAll(k.doc, "|", `\|`))
		}
	}
	want.WriteString("\n")
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(before+begin+want.String()+end+after), 0o644))
		return
	}
	require.Equal(t, want.String(), tables, "go test ./config -update")
}

func heading(s *shape) string {
	return strings.TrimPrefix(strings.TrimPrefix(s.name, "a "), "the ")
}

func describeKind(k kind) string {
	switch {
	case k.either != nil:
		var all []string
		for _, one := range k.either {
			all = append(all, describeKind(one))
		}
		return strings.Join(all, ", or ")
	case k.shape != nil:
		anchor := strings.NewReplacer(".", "", " ", "-").Replace(heading(k.shape))
		return fmt.Sprintf("[%s](#%s)", heading(k.shape), anchor)
	case k.list != nil:
		return "list of " + describeKind(*k.list)
	case k.names != nil:
		return "mapping of names to " + describeKind(*k.names)
	case len(k.words) > 0 && k.scalar != ofBoolean:
		return "`" + strings.Join(k.words, "`, `") + "`"
	}
	return k.what
}

func TestSampleHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("testdata/lockkeeper.yaml")
	require.NoError(t, err)
	for _, place := range places {
		for _, name := range place.shape.names() {
			require.Contains(t, string(text), name+":", "%s of %s", name, place.shape.name)
		}
	}
}

// The examples of the documentation are files that somebody may copy at night.
func TestExamplesOfOverridesAreValid(t *testing.T) {
	text, err := os.ReadFile("../docs/overrides.md")
	require.NoError(t, err)
	kinds := map[override.Kind]bool{}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	for _, block := range blocks {
		example, _, found := strings.Cut(block, "```")
		require.True(t, found)
		all, problems, _ := parseOverrides(t, example, classes+"emergency: {allow_bypass: true}\n")
		require.Empty(t, problems, example)
		for _, o := range all {
			kinds[o.Kind] = true
		}
	}
	require.Len(t, kinds, len(override.Kinds()), "an example of each kind")
}
