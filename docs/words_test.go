package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// banned are phrases without a right use, what each of them contains (to look for that is far quicker), and what to
// write instead. A space also stands for the end of a line, with the sign of a comment on the next one.
var banned = []struct{ phrase, has, instead string }{
	{`[Ww]ho(?:m|)ever`, "ever", "name the subject: the waiter, the holder, a client that …"},
	{`(?:[Nn]o|[Aa]ny)body`, "body", "name the subject: no client, any request, all users …"},
	{`(?:is|are) told`, "told", "say what it learns, and from what: its context ends, it reads …"},
	{`(?:[Aa]sk(?:s|ed|ing|)|[Tt]ell(?:s|ing|)|[Tt]old)(?: [\w%{}]+){0,4} to go`, " go", "preempt a holder, cancel work"},
	{`requests? to go`, " go", "preemption"},
	{`looks (?:again)`, "looks", "reads, lists, judges or polls again"},
}

// allowed are the phrases that stay in a file: a value of audit records, a recorded run, a user of the system, a log text of before.
var allowed = map[string]string{
	"emergency/duty.go": none, "emergency/executor_test.go": none, "emergency/operator.go": none, "docs/howto/upgrade.md": "asked the " + "holder to go",
	"integration/robust/report.txt":       none,
	"integration/secrets/secrets_test.go": none, "jobs/identity_linux_test.go": none,
}

const none = "no" + "body"

func TestWordsArePlain(t *testing.T) {
	t.Parallel()
	skipped := []string{".git", "bin", "dist", "node_modules", "go.sum"}
	spaces := strings.NewReplacer("\n", " ", "\t", " ")
	var phrases []*regexp.Regexp
	for _, b := range banned {
		phrases = append(phrases, regexp.MustCompile(`\b`+strings.ReplaceAll(b.phrase, " ", `\s+(?:(?://|#|\*)\s+)?`)+`\b`))
	}
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch skip := slices.Contains(skipped, entry.Name()); {
		case err != nil || entry.IsDir() && !skip:
			return err
		case entry.IsDir():
			return fs.SkipDir
		case skip || !entry.Type().IsRegular():
			return nil
		}
		text, file := read(t, path), strings.TrimPrefix(filepath.ToSlash(path), "../")
		if strings.Contains(text, "\x00") {
			return nil // no text
		}
		spaced := spaces.Replace(text)
		for i, phrase := range phrases {
			for _, at := range find(spaced, banned[i].has, phrase) {
				if found := spaced[at[0]:at[1]]; allowed[file] != found {
					t.Errorf("%s:%d: %q: %s", file, 1+strings.Count(text[:at[0]], "\n"), found, banned[i].instead)
				}
			}
		}
		return nil
	}))
}

// find returns where a phrase is. It looks only around what each match contains.
func find(text, has string, phrase *regexp.Regexp) (found [][]int) {
	const before, after = 100, 400
	for from, end := 0, 0; ; {
		at := strings.Index(text[from:], has)
		if at < 0 {
			return found
		}
		at += from
		from = at + len(has)
		begin := max(end, 1+strings.LastIndexAny(text[:max(0, at-before)], " \n"))
		till := min(len(text), at+after)
		if rest := strings.IndexAny(text[till:], " \n"); rest >= 0 { // no word is cut
			till += rest
		} else {
			till = len(text)
		}
		if match := phrase.FindStringIndex(text[begin:till]); match != nil {
			end = begin + match[1]
			found = append(found, []int{begin + match[0], end})
			from = max(from, end)
		}
	}
}

func TestPhrasesAreFound(t *testing.T) {
	phrase := regexp.MustCompile(`\bhas\s+sung\b`)
	require.Equal(t, [][]int{{0, 8}, {14, 22}}, find("has sung sung has\tsung unsung", "sung", phrase))
	require.Empty(t, find("thathas sung", "sung", phrase))
	require.Empty(t, find("thathas"+strings.Repeat(" ", 97)+"sung", "sung", phrase), "the window begins in a word")
	require.Empty(t, find("has "+"sung"+strings.Repeat("x", 500), "sung", phrase), "or ends in one")
	long := strings.Repeat("sung ", 200)
	require.Equal(t, [][]int{{len(long), len(long) + 8}}, find(long+"has sung "+long, "sung", phrase))
}
