package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// The fixed list: one of each family of faults, the ones behind which two holders
// were to be expected most. It is about three quarters of a minute.
func fixedList() []nemesis.Step {
	const short, long = 500 * time.Millisecond, 5 * time.Second
	return []nemesis.Step{
		{Kind: nemesis.LinkBlackhole, Client: "c01", For: long},
		{Kind: nemesis.ClientKill, Client: "c02"},
		{Kind: nemesis.LeaderKill, For: short},
		{Kind: nemesis.ReplyDrop, Client: "c03", For: 2 * time.Second},
		{Kind: nemesis.LinkMute, Client: "c04", For: long},
		{Kind: nemesis.ClientPause, Client: "c05", For: long},
		{Kind: nemesis.SessionExpire, Client: "c06"},
		{Kind: nemesis.LinkSlow, Client: "c07", For: 2 * time.Second},
		{Kind: nemesis.LeaderPartition, For: 2 * time.Second},
		{Kind: nemesis.FollowerKillAcked, Client: "c08", Reach: nemesis.Alone, For: long},
	}
}

func TestPromisesHoldUnderAFixedListOfFaults(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	worker, err := Build(t.Context(), dir, true, "")
	require.NoError(t, err)

	report, err := Run(t.Context(), Options{
		Clients: 8, Dir: dir, Duration: 5 * time.Minute, Log: t.Logf, Scopes: 3,
		Evidence: filepath.Join(os.TempDir(), fmt.Sprintf("robust-violation-%d", os.Getpid())), // only if there is any
		Season:   8 * time.Second,
		Seed:     20, Session: 3 * time.Second, Steps: fixedList(), Worker: worker,
	})

	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, report.Write(&text))
	t.Log(text.String())
	var broken []string // in short, for the summary of a run
	for _, v := range report.Violations {
		broken = append(broken, fmt.Sprintf("%s: %s", v.Check, v.Text))
	}
	require.Empty(t, broken)
	require.Empty(t, report.Unknown)
	require.Positive(t, report.Figures.Grants)
	require.Len(t, report.Faults, len(fixedList()))
}
