package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	fences   = regexp.MustCompile("(?ms)^```.*?^```$")
	codes    = regexp.MustCompile("`[^`\n]*`")
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unslug   = regexp.MustCompile(`[^\w\- ]`)
	targets  = regexp.MustCompile(`(?m)^([a-z-]+):`)
	makes    = regexp.MustCompile("(?m)(?:`|^)make ([a-z-]+)")
)

func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "tutorials/*.md", "howto/*.md", "../*.md", "../examples/*.md", "../examples/*/*.md", "../integration/*.md", "../integration/*/*.md", "../integration/*/*/*.md", "../recipes/*/*/*.md", "../zktest/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		all = append(all, found...)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// Links within the repository lead to files, and to headings of pages.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	var dead []string
	known := make(map[string][]string) // anchors, by page
	for _, page := range pages(t) {
		text := codes.ReplaceAllString(fences.ReplaceAllString(read(t, page), ""), "")
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(link[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				dead = append(dead, page+": "+link[1]+": no such file")
				continue
			}
			if anchor == "" {
				continue
			}
			if known[target] == nil {
				known[target] = anchors(read(t, target))
			}
			if !slices.Contains(known[target], anchor) {
				dead = append(dead, page+": "+link[1]+": no such heading")
			}
		}
	}
	require.Empty(t, dead, strings.Join(dead, "\n"))
}

// anchors are those of a page's headings, as GitHub makes them.
func anchors(page string) (all []string) {
	for _, heading := range headings.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		slug := unslug.ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// Whatever a page says that make does, it does.
func TestTargetsOfMakeAreThere(t *testing.T) {
	t.Parallel()
	there := make(map[string]bool)
	for _, target := range targets.FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		there[target[1]] = true
	}
	var missing []string
	for _, page := range pages(t) {
		for _, named := range makes.FindAllStringSubmatch(read(t, page), -1) {
			if !there[named[1]] {
				missing = append(missing, page+": make "+named[1])
			}
		}
	}
	require.Empty(t, missing, strings.Join(missing, "\n"))
}
