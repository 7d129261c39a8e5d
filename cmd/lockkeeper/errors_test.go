package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/priority"
)

// The page on troubleshooting has each error of the facade: its kind, the exit code of exec, and what the comment says.
func TestDocumentationHasEveryError(t *testing.T) {
	t.Parallel()
	const name, begin, end = "../../docs/troubleshooting.md", "<!-- errors: go test ./cmd/lockkeeper -update -->\n", "<!-- end of errors -->"
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	table, after, found := strings.Cut(rest, end)
	require.True(t, found)

	for _, code := range []int{exitFailed, exitNotAcquired, exitPreempted, exitLost, exitConfig} {
		require.Contains(t, before, fmt.Sprintf("\n|%d|", code), "the table of exit codes")
	}
	want, kinds := "\n|`lockkeeper.`|kind|`exec`|meaning|\n|---|---|---|---|\n", map[priority.Kind]bool{"": true}
	meanings := errorsOfTheFacade(t)
	for _, e := range []error{
		&lockkeeper.PreemptedError{}, &lockkeeper.LeaseExpiredError{}, &lockkeeper.OverriddenError{}, &lockkeeper.LostError{}, &lockkeeper.ShutdownError{},
		&lockkeeper.NotAcquiredError{}, &lockkeeper.CleanupPendingError{}, &lockkeeper.QueueFullError{}, &lockkeeper.EvictedError{}, &lockkeeper.FrozenError{},
		&lockkeeper.UnavailableError{}, &lockkeeper.UpgradeError{}, &lockkeeper.RequestError{}, &lockkeeper.RetryError{}, &lockkeeper.PanicError{},
	} {
		kind, of := priority.CauseOf(e).Kind, reflect.TypeOf(e).Elem().Name()
		kinds[kind] = true
		code := "–" // exec ends by its signal, or has no such error
		if kind != "" && kind != priority.KindShutdown || isOneOf(e, new(*lockkeeper.RequestError), new(*lockkeeper.UnavailableError)) {
			code = fmt.Sprint(exitCode(refused(nil, e)))
		}
		require.NotEmpty(t, meanings[of], "the comment of %s", of)
		want += fmt.Sprintf("|`%s`|%s|%s|%s|\n", of, cmp.Or(string(kind), "–"), code, meanings[of])
		delete(meanings, of)
	}
	want += "\n"
	require.Empty(t, meanings, "errors that the table does not have")
	require.Len(t, kinds, len(priority.Kinds())+1, "a kind that the table does not have")
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(before+begin+want+end+after), 0o600))
		return
	}
	require.Equal(t, want, table, "go test ./cmd/lockkeeper -update")
}

// errorsOfTheFacade returns what their comments say.
func errorsOfTheFacade(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../cause.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	meanings := map[string]string{}
	for _, d := range file.Decls {
		types, ok := d.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, s := range types.Specs {
			spec := s.(*ast.TypeSpec)
			comment := strings.Join(strings.Fields(cmp.Or(spec.Doc.Text(), types.Doc.Text())), " ")
			if name := spec.Name.Name; strings.HasSuffix(name, "Error") {
				meanings[name] = strings.TrimPrefix(strings.TrimLeft(strings.TrimPrefix(comment, name), ": "), "is ")
			}
		}
	}
	return meanings
}
