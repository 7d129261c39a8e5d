package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/lock/model"
)

// tables are those of recipes/lock/model/results.md, each between two comments.
type tables struct{ guards, configurations strings.Builder }

func (t *tables) redundant(p model.Protocol, why string) {
	fmt.Fprintf(&t.guards, "| %s | not found | | | %s |\n", p, why)
}

func (t *tables) missed(r model.Report) {
	fmt.Fprintf(&t.guards, "| %s | %s | %s | %d | %s: %s |\n",
		r.Without, r.Kind, grouped(r.States), len(r.Trace), r.Config, r.Violation)
}

func (t *tables) visited(r model.Report) {
	fmt.Fprintf(&t.configurations, "| %s | %s | %d | %d |\n",
		r.Config, grouped(r.States), r.Depth, int(math.Round(r.Took.Seconds())))
}

// write puts the rows into a file; "" is none.
func (t *tables) write(file string) error {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(data)
	for _, table := range []struct{ begin, rows string }{
		{"<!-- guards -->", t.guards.String()},
		{"<!-- configurations -->", t.configurations.String()},
	} {
		before, rest, _ := strings.Cut(text, table.begin)
		old, after, found := strings.Cut(rest, "<!-- end -->")
		head := strings.SplitAfterN(old, "\n", 4) // the end of the comment's line, names, rule
		if !found || len(head) < 4 {
			return fmt.Errorf("%s: no table after %s", file, table.begin)
		}
		text = before + table.begin + strings.Join(head[:3], "") + table.rows + "<!-- end -->" + after
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
