package audit

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A head that promises more than can be there, or less than nothing, keeps
// nobody busy, and does not fill the disk of those who ship the trail.
func TestHeadsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"many":      `{"format":1,"seq":1000000000000,"hash":"x","first":1,"anchor":""}`,
		"last":      `{"format":1,"seq":9223372036854775807,"hash":"x","first":9223372036854775800,"anchor":""}`,
		"backwards": `{"format":1,"seq":3,"hash":"x","first":100,"anchor":""}`,
		"negative":  `{"format":1,"seq":3,"hash":"x","first":-9000000000,"anchor":""}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			l := logOf(t, h.client(), 0)
			appendAll(t, l, 1, 3)
			h.write(h.head(), head)

			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			_, err := l.Append(ctx, entry(4))

			require.Error(t, err)
			_, _, err = l.Read(ctx, recipes.AuditQuery{})

			require.Error(t, err)
			report, err := l.Verify(ctx)

			require.NoError(t, err)
			require.NotNil(t, report.Broken)
			require.Equal(t, recipes.AuditHeadMismatch, report.Broken.Fault)
			require.NoError(t, ctx.Err())

			file := filepath.Join(t.TempDir(), "audit.jsonl")
			_, stop := ships(t, l, file)
			select {
			case <-time.After(2 * time.Second):
			case <-t.Context().Done():
			}
			stop()

			require.Less(t, len(lines(t, file)), 10)
		})
	}
}
