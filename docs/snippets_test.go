package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/config"
)

var (
	comment  = regexp.MustCompile(`^<!-- (from|not checked:) (.+) -->$`)
	runs     = regexp.MustCompile(`^(?:! )?(?:exec|exits \d+|start \w+|until '[^']*'|env) (.*?)(?: &(?:\w+&)?)?$`)
	matches  = regexp.MustCompile(`^(?:stdout|stderr|(?:prints|tells) \w+) '\^?(.*?)\$?'$`)
	remark   = regexp.MustCompile(`\s+# .*$`)
	elided   = regexp.MustCompile(`^(//|#)? ?(…|\.\.\.)$`)
	escape   = regexp.MustCompile(`\\([^\w\s])`)
	sections = strings.Fields("approvals audit console defaults drain emergency groups jobs log metrics overrides " +
		"priorities scheduler scopes temporal version zookeeper")
)

// A block is a fenced block of a page: its first line, and the last one above that has text.
type block struct {
	page, language, above string
	lines                 []string
	line                  int
}

// Each block is part of a file that tests run, a configuration that is valid, or says why it is neither.
func TestBlocksAreChecked(t *testing.T) {
	t.Parallel()
	files := installation(t)
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "..") && page != "../README.md" {
			continue // pages about the repository itself
		}
		for _, b := range blocksOf(page, read(t, page)) {
			if err := b.check(files); err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
			}
		}
	}
}

// installation writes the files that configurations name, and has their names for those on the pages.
func installation(t *testing.T) *strings.Replacer {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/digest", []byte("lockkeeper:secret\n"), 0o600))
	require.NoError(t, os.WriteFile(dir+"/users", []byte("ana:"+string(hash)+"\n"), 0o600))
	return strings.NewReplacer(
		"/etc/lockkeeper/lockkeeper.digest", dir+"/digest", "/etc/lockkeeper/console.users", dir+"/users")
}

func (b block) check(files *strings.Replacer) error {
	source := comment.FindStringSubmatch(b.above)
	switch {
	case source == nil && b.language == "yaml":
		return b.validate(files)
	case source == nil && b.language == "text", source != nil && source[1] != "from":
		return nil
	case source == nil:
		return fmt.Errorf("the block has no source; write <!-- from PATH --> or <!-- not checked: REASON --> above it")
	}
	return b.occursIn(source[2])
}

// occursIn reports the first line that the file does not have after the lines before.
func (b block) occursIn(name string) error {
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		return err
	}
	have, at := strings.Split(string(text), "\n"), 0
	script := strings.HasSuffix(name, ".txtar") || strings.HasSuffix(name, ".txt")
	for i, line := range b.lines {
		want := strings.TrimSpace(line)
		if want == "" || elided.MatchString(want) {
			continue
		}
		next := slices.IndexFunc(have[at:], func(line string) bool {
			line = strings.TrimSpace(line)
			return line == want || script && command(line) == command(want)
		})
		if next < 0 {
			return fmt.Errorf("line %d of the block is not in %s after line %d of that file: %s", i+1, name, at, want)
		}
		at += next + 1
	}
	return nil
}

// command is a line of a script, or of a block that shows it, as a shell would have it.
func command(line string) string {
	line = strings.TrimPrefix(strings.TrimPrefix(remark.ReplaceAllString(line, ""), "$ "), "export ")
	if found := runs.FindStringSubmatch(line); found != nil {
		return found[1]
	}
	if found := matches.FindStringSubmatch(line); found != nil {
		return escape.ReplaceAllString(found[1], "$1")
	}
	return line
}

// validate reads the block as a configuration without warnings, or as a file of overrides.
func (b block) validate(files *strings.Replacer) error {
	text := files.Replace(strings.Join(b.lines, "\n") + "\n")
	first, _, _ := strings.Cut(strings.TrimLeft(text, "\n"), ":")
	if !slices.Contains(sections, first) {
		return fmt.Errorf("%q is no key of the configuration; write <!-- from PATH --> above the block", first)
	}
	const job = "jobs: {example: {schedule: manual, run: [a]}}\n"
	const base = "version: 1\npriorities: {classes: {critical: 90}}\nemergency: {allow_bypass: true}\n" + job
	if first == "overrides" {
		main, err := config.Parse("main", []byte(base), config.Options{})
		if err == nil {
			_, err = config.ParseOverrides(b.page, []byte(text), config.OverridesOptions{Config: main})
		}
		return err
	}
	if first != "version" {
		text = "version: 1\n" + text
	}
	if !regexp.MustCompile(`(?m)^(jobs|groups):`).MatchString(text) {
		text += job
	}
	cfg, err := config.Parse(b.page, []byte(text), config.Options{})
	if err == nil && len(cfg.Warnings) > 0 {
		err = fmt.Errorf("%v", cfg.Warnings)
	}
	return err
}

// blocksOf are the fenced blocks of a page.
func blocksOf(page, text string) (all []block) {
	above, indent, inside := "", "", false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		language, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case fence && !inside:
			indent, _, _ = strings.Cut(line, "`")
			all, inside = append(all, block{page: page, line: i + 1, language: language, above: above}), true
		case fence:
			above, inside = "", false
		case inside:
			last := &all[len(all)-1]
			last.lines = append(last.lines, strings.TrimPrefix(line, indent))
		case trimmed != "":
			above = trimmed
		}
	}
	return all
}
