package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// All that commands write for people goes through one of these.
func TestTextOfOthersPlaysNoTricksOnTheTerminal(t *testing.T) {
	const evil = "a\u202eb\u2066c\u200fd\x1b[2Je\nf\u061cg\ufeffh"
	const harmless = "a\uFFFDb\uFFFDc\uFFFDd\uFFFD[2Je\uFFFDf\uFFFDg\uFFFDh"
	var out, errs bytes.Buffer
	p := &program{stdout: &out, stderr: &errs}
	for what, write := range map[string]func(){
		"a row":       func() { row(&out, evil) },
		"a line":      func() { line(&out, "%s", evil) },
		"a paragraph": func() { out.WriteString(drawn(400, func(pg page) { pg.paragraph("", "%s", evil) })) },
		"a grid": func() {
			out.WriteString(drawn(400, func(pg page) {
				g := pg.grid()
				g.row(evil)
				g.draw()
			}))
		},
		"a note":    func() { p.say("%s", evil) },
		"a node":    func() { p.tellUnreadable([]lock.Unreadable{{Path: evil, Reason: evil}}) },
		"what went": func() { p.exit(&codeError{code: 1, text: "a\u202eb\u2066c\u200fd\x1b[2Je\uFFFDf\u061cg\ufeffh"}) },
	} {
		out.Reset()
		errs.Reset()
		write()
		require.Contains(t, out.String()+errs.String(), harmless, what)
	}
}

func TestManyUnreadableNodesAreCounted(t *testing.T) {
	var errs bytes.Buffer
	p := &program{stderr: &errs}
	p.tellUnreadable(make([]lock.Unreadable, manyUnreadable+3))
	require.Contains(t, errs.String(), "3 more nodes; all of them: lockkeeper doctor")
}
