package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// Readers of metrics have a series for each reason from the start on.
func TestEveryReasonForASkipIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "skip.go", nil, 0)
	require.NoError(t, err)
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].IsExported() {
			declared++
		}
		return true
	})
	listed := map[SkipReason]bool{}
	for _, reason := range SkipReasons() {
		listed[reason] = true
	}
	require.Len(t, listed, declared)
}
