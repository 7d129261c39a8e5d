package program

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

// shares waits until each participant of a group holds so many locks, there are
// no others, and no lock is on its way.
func shares(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 1, "shares GROUP NAME=N...")
	want := slices.Sorted(slices.Values(args[1:]))
	eventually(ts, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		state, err := group.StateOf(ctx, storyOf(ts).client.Client, args[0])
		if err != nil {
			return err
		}
		counts := map[string]int{}
		for _, m := range state.Members {
			counts[m.Name] = 0
		}
		for _, l := range state.Locks {
			for _, h := range l.Holders {
				if h.Releasing {
					return fmt.Errorf("%s has not released %s yet", h.Name, l.Lock)
				}
				counts[h.Name]++
			}
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			got = append(got, fmt.Sprintf("%s=%d", name, counts[name]))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the shares of %s are %s", args[0], strings.Join(got, " "))
		}
		return nil
	})
}
