package audit

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A head that promises more than can be there, or less than nothing, keeps no
// reader busy, and does not fill the disk of those who ship the trail.
func TestHeadsThatCannotBe(t *testing.T) {
	for name, head := range map[string]string{
		"many":      `{"format":1,"seq":1000000000000,"hash":"x","first":1,"anchor":""}`,
		"last":      `{"format":1,"seq":9223372036854775807,"hash":"x","first":9223372036854775800,"anchor":""}`,
		"backwards": `{"format":1,"seq":3,"hash":"x","first":100,"anchor":""}`,
		"negative":  `{"format":1,"seq":3,"hash":"x","first":-9000000000,"anchor":""}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.RunT(t, zktest.Pipe())
				l := logOf(t, harness.NewClient(t, lock.Config{Dialer: server.Dialer("client")}), 0)
				appendAll(t, l, 1, 3)
				require.NoError(t, server.Set("/lockkeeper/audit", []byte(head)))

				_, err := l.Append(t.Context(), entry(4))
				require.Error(t, err)
				_, _, err = l.Read(t.Context(), opstore.AuditQuery{})
				require.Error(t, err)
				broken := verified(t, l).Broken
				require.NotNil(t, broken)
				require.Equal(t, opstore.AuditHeadMismatch, broken.Fault)

				file := filepath.Join(t.TempDir(), "audit.jsonl")
				_, stop := ships(t, l, file)
				<-time.After(time.Hour)
				stop()
				require.Less(t, len(lines(t, file)), 10)
			})
		})
	}
}
