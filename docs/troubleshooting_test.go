package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each message that the page on troubleshooting quotes is in the code: what stands
// between its ‹values›, in a string of a program or a package.
func TestMessagesOfTroubleshootingAreInTheCode(t *testing.T) {
	t.Parallel()
	value, code := regexp.MustCompile(`"?‹[^›]*›"?`), regexp.MustCompile("`([^`]+)`")
	texts := strings.Join(stringsOfTheCode(t), "\x00")
	var missing []string
	entries := regexp.MustCompile("(?m)^- (`.*?)<br>").FindAllStringSubmatch(read(t, "troubleshooting.md"), -1)
	require.Greater(t, len(entries), 80)
	for _, entry := range entries {
		for _, message := range code.FindAllStringSubmatch(entry[1], -1) {
			for part := range strings.SplitSeq(value.ReplaceAllString(message[1], "\x01"), "\x01") {
				if !strings.Contains(texts, part) {
					missing = append(missing, part+" of "+message[1])
				}
			}
		}
	}
	require.Empty(t, missing, strings.Join(missing, "\n"))
}

// stringsOfTheCode are the literals outside of tests and examples; those that are added to each other are one.
func stringsOfTheCode(t *testing.T) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && isHidden(entry) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains([]string{"integration", "examples"}, strings.Split(path, "/")[1]) {
			return err
		}
		var s scanner.Scanner
		source := []byte(read(t, path))
		s.Init(token.NewFileSet().AddFile(path, -1, len(source)), source, nil, 0)
		before, last := token.ILLEGAL, token.ILLEGAL
		for _, tok, lit := s.Scan(); tok != token.EOF; _, tok, lit = s.Scan() {
			switch text, err := strconv.Unquote(lit); {
			case tok != token.STRING || err != nil:
			case last == token.ADD && before == token.STRING:
				all[len(all)-1] += text
			default:
				all = append(all, text)
			}
			before, last = last, tok
		}
		return nil
	}))
	return all
}
