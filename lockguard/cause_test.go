package lockguard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Errors about a lock that neither end a hold nor keep a request from its grant.
var noCauses = map[string]string{
	"lockguard.UpgradeError":   "a mistake in the program",
	"lock.EmergencyError":      "a mistake in the request, as a RequestError is",
	"classic.UpgradeError":     "a mistake in the program",
	"lock.NotHeldError":        "an operator's break of a lock had nothing to do",
	"lock.PreemptPendingError": "the answer to Extend and Join; the cause comes with the notice",
	"lock.StaleTokenError":     "an operator's break of a lock meant another holder",
}

func TestEveryErrorAboutALockIsACauseOfItsKind(t *testing.T) {
	deadline := time.Unix(1, 0)
	asked := func(kind priority.Kind, by string, level priority.Level) priority.CauseInfo {
		return priority.CauseInfo{Kind: kind, By: by, Priority: level, Deadline: deadline, Forceful: true}
	}
	kinds, types := map[priority.Kind]bool{}, map[string]bool{}
	for _, c := range []struct {
		err  priority.Cause
		want priority.CauseInfo
	}{
		{&LostError{By: "b"}, priority.CauseInfo{Kind: "lost"}},
		{&PreemptedError{By: "b", Priority: 3, Deadline: deadline, Forceful: true}, asked("preempted", "b", 3)},
		{&LeaseExpiredError{By: "b", Priority: 3, Deadline: deadline}, asked("lease_expired", "b", 3)},
		{&OverriddenError{Override: lock.Mark{By: "ops"}, Deadline: deadline, Forceful: true}, asked("overridden", "ops", 0)},
		{&FrozenError{}, priority.CauseInfo{Kind: "frozen"}},
		{&lock.CleanupPendingError{}, priority.CauseInfo{Kind: "cleanup_pending"}},
		{&lock.QueueFullError{}, priority.CauseInfo{Kind: "queue_full"}},
		{&lock.EvictedError{}, priority.CauseInfo{Kind: "evicted"}},
		{&lock.NotAcquiredError{}, priority.CauseInfo{Kind: "timeout"}},
		{&ShutdownError{}, priority.CauseInfo{Kind: "shutdown"}},
	} {
		v := reflect.ValueOf(c.err).Elem()
		v.FieldByName("Scope").SetString("a")
		c.want.Scope = "a"
		require.Equal(t, c.want, c.err.Info(), "%T", c.err)
		require.Contains(t, priority.Kinds(), c.want.Kind)
		kinds[c.want.Kind], types[v.Type().String()] = true, true
	}
	require.Len(t, kinds, len(priority.Kinds()), "a kind that no error has")

	for _, name := range errorsAboutALock(t, ".", "../recipes/lock") {
		require.True(t, types[name] || noCauses[name] != "", "%s has a Scope: give it an Info and a row in this table, or say in noCauses why it is no cause", name)
	}
}

// errorsAboutALock returns the types of packages that are named like errors and have a Scope.
func errorsAboutALock(t *testing.T, directories ...string) (names []string) {
	for _, file := range parsed(t, directories) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() || !strings.HasSuffix(spec.Name.Name, "Error") {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && hasScope(s) {
				names = append(names, file.Name.Name+"."+spec.Name.Name)
			}
			return true
		})
	}
	require.Greater(t, len(names), 10)
	return names
}

// parsed returns the files of packages.
func parsed(t *testing.T, directories []string) (files []*ast.File) {
	for _, directory := range directories {
		names, err := filepath.Glob(filepath.Join(directory, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	return files
}

func hasScope(s *ast.StructType) bool {
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			if name.Name == "Scope" {
				return true
			}
		}
	}
	return false
}
