package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestEveryArgumentHasCompletions(t *testing.T) {
	seen := map[string]bool{}
	flags := map[string]bool{}
	argument := regexp.MustCompile(`^\S+ (\[?[A-Z]|\[?-- )|^exec `)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := commandName(c)
		_, named := argumentsOf[name]
		_, path := pathsOf[name]
		require.Equal(t, argument.MatchString(c.Use), named || path, "%s: %s", name, c.Use)
		seen[name] = true
		for flag := range valuesOf {
			_, flag, ofOne := strings.Cut(flag, name+" ")
			if ofOne && c.Flag(flag) != nil {
				flags[name+" "+flag] = true
			}
		}
		for flag := range valuesOf {
			if c.Flag(flag) != nil {
				flags[flag] = true
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&program{}).root())

	for name := range argumentsOf {
		require.True(t, seen[name], "there is no command %q", name)
	}
	for name := range pathsOf {
		require.True(t, seen[name], "there is no command %q", name)
	}
	for flag := range valuesOf {
		require.True(t, flags[flag], "no command has the flag %q", flag)
	}
}

func TestCompletionOffersOnlyWordsThatAShellTakesAsTheyAre(t *testing.T) {
	from := func(*completer) []candidate {
		return []candidate{
			{"b/2", "two"},
			{"b/1", "one\nmore"},
			{"b/1", "again"},
			{"a", ""},
			{"b/taken", ""},
			{"b/$(reboot)", ""},
			{"b/`reboot`", ""},
			{"b/x;y", ""},
			{"b/x y", ""},
			{"b/x\ty", ""},
			{"b/'", ""},
			{"b/\x1b[2J", ""},
			{"b/*", ""},
		}
	}
	p := &program{}
	c, _, err := p.root().Find([]string{"locks", "show"})
	require.NoError(t, err)

	offered := p.candidates(c, from, "b/", []string{"b/taken"})

	require.Equal(t, []cobra.Completion{"b/1\tone\uFFFDmore", "b/2\ttwo"}, offered)
}
