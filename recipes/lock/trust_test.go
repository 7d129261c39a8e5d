package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestOnlyAQueueThatWasSeenLatelyIsTrusted(t *testing.T) {
	now := time.Now()
	const joined = zkclient.Instant(time.Hour)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	seen := func(waiting int, wait time.Duration) hint {
		return hint{waiting: waiting, lowest: 3, waitingAt: now.Add(-ms(2)), wait: wait}
	}
	old := seen(8, ms(3))
	old.waitingAt = now.Add(-trustAfter)

	for _, test := range []struct {
		name        string
		h           hint
		level       priority.Level
		look, until time.Duration // after joining; 0: not trusted
	}{
		{"no history", hint{}, 3, 0, 0},
		{"no waiter", seen(0, ms(3)), 3, 0, 0},
		{"seen too long ago", old, 3, 0, 0},
		{"a holder may have to be preempted", seen(8, ms(3)), 4, 0, 0},
		{"waits are long", seen(8, maxTrust+1), 3, 0, 0},
		{"several waited for a short time", seen(8, ms(3)), 3, ms(3) / 2, ms(11)},
		{"less important than all", seen(8, ms(3)), 0, ms(3) / 2, ms(11)},
		{"several waited for a while", seen(32, ms(20)), 3, ms(15), ms(45)},
		{"one waited for a short time", seen(1, ms(1)), 3, ms(3), ms(3)},
		{"one waited for a while", seen(1, ms(20)), 3, maxTrustOfFew, maxTrustOfFew},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := test.h.trust(test.level, joined, now)
			if test.until == 0 {
				require.Nil(t, plan)
				return
			}
			require.Equal(t, &trust{look: joined.Add(test.look), until: joined.Add(test.until)}, plan)
		})
	}
}

func TestHeirIsTheNextUnlessAMoreImportantRequestIsInFront(t *testing.T) {
	queue := func(levels ...priority.Level) (children []child) {
		for i, level := range levels {
			children = append(children, child{guid: string(rune('a' + i)), place: position{Level: level, Sequence: int32(i)}})
		}
		return children
	}
	for _, test := range []struct {
		name  string
		queue []child
		me    int
		want  string // "": none
	}{
		{"last", queue(1, 1, 1), 2, ""},
		{"alone", queue(1), 0, ""},
		{"among equals", queue(1, 1, 1), 1, "c"},
		{"first", queue(1, 1, 1), 0, "b"},
		{"before a less important one", queue(1, 1, 0), 1, "c"},
		{"behind a more important one", queue(9, 1, 1), 1, ""},
		{"far behind a more important one", queue(9, 1, 1, 1), 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			heir, ok := heirBehind(test.queue, test.me)
			require.Equal(t, test.want != "", ok)
			require.Equal(t, test.want, heir.guid)
		})
	}
}
