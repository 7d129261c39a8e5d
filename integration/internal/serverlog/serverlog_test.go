package serverlog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/serverlog"
)

// outcome is a test that has failed, or not.
type outcome struct {
	*testing.T
	failed  bool
	printed []any
}

func (o *outcome) Failed() bool               { return o.failed }
func (o *outcome) Name() string               { return "TestX/y z" }
func (o *outcome) Logf(_ string, args ...any) { o.printed = args }

func TestLogOfAFailedTestIsKeptInAFile(t *testing.T) {
	t.Setenv(serverlog.Variable, filepath.Join(t.TempDir(), "logs"))
	passed, failed := &outcome{T: t}, &outcome{T: t, failed: true}

	serverlog.Keep(passed, "127.0.0.1:1", "what happened")
	require.Empty(t, passed.printed)
	require.NoDirExists(t, os.Getenv(serverlog.Variable))

	serverlog.Keep(failed, "127.0.0.1:1", "what happened")
	require.Len(t, failed.printed, 2)
	path := failed.printed[1].(string)
	require.Regexp(t, `^TestX_y_z-127\.0\.0\.1_1-\d+\.log$`, filepath.Base(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "what happened\n", string(text))

	t.Setenv(serverlog.Variable, path) // no directory
	serverlog.Keep(failed, "127.0.0.1:1", "what happened")
	require.Contains(t, failed.printed, "what happened", "then the end of the log is printed")
}
