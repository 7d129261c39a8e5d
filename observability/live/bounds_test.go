package live

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// turns lets requests hold a lock one after the other, and returns their names.
func (s *script) turns(scope string, n int) (names []string) {
	for range n {
		name := fmt.Sprint("r", s.zxid)
		s.acquire(scope, name)
		s.wait(time.Second)
		s.leave(scope, name)
		names = append(names, name)
	}
	return names
}

func (s *script) known(scope string) []string {
	return ids(s.board.Timeline(scope, time.Time{}, time.Time{}).Rows)
}

func TestHistoryKeepsTheNewestOfALockAndNoOlderOnes(t *testing.T) {
	play(t, Keep{PerLock: 5}, func(t *testing.T, s *script) {
		names := s.turns(users, 5)
		require.Equal(t, names, s.known(users), "as many as are kept")
		names = append(names, s.turns(users, 4)...)
		require.Equal(t, names[4:], s.known(users))
		require.Equal(t, 5, s.board.kept)

		// those who are there are beside that
		s.acquire(users, "there")
		require.Equal(t, append(names[4:], "there"), s.known(users))
	})
}

func TestHistoryKeepsTheNewestOfAllLocks(t *testing.T) {
	play(t, Keep{Total: 6, PerLock: 100}, func(t *testing.T, s *script) {
		old := s.turns("old", 4)
		busy := s.turns("busy", 2)
		require.Equal(t, old, s.known("old"), "as many as are kept")
		busy = append(busy, s.turns("busy", 3)...)
		require.Equal(t, old[3:], s.known("old"), "the oldest have gone, of whatever lock")
		require.Equal(t, busy, s.known("busy"))
		busy = append(busy, s.turns("busy", 3)...)
		require.Empty(t, s.known("old"))
		require.Equal(t, busy[2:], s.known("busy"))
	})
}

func TestHistoryKeepsWhatIsNotTooOld(t *testing.T) {
	play(t, Keep{Age: time.Hour}, func(t *testing.T, s *script) {
		s.acquire(users, "ann")
		s.second(10)
		s.leave(users, "ann")
		s.acquire(users, "bob")
		s.second(10 + 3600)
		require.Equal(t, []string{"ann", "bob"}, s.known(users))
		s.second(10 + 3601)
		require.Equal(t, []string{"bob"}, s.known(users), "who is there stays")
		require.Equal(t, "10s", s.moment(s.board.Timeline(users, time.Time{}, time.Time{}).Rows[0].Spells[0].From))
		require.Equal(t, s.start.Add(11*time.Second).UTC(), s.board.Timeline(users, time.Time{}, time.Time{}).Known)
	})
}

// The list of all that has ended is by age; what busy locks have dropped of it must
// not stay behind what quiet ones keep.
func TestBusyLocksLeaveNothingBehindQuietOnes(t *testing.T) {
	play(t, Keep{PerLock: 3, Total: 10_000}, func(t *testing.T, s *script) {
		quiet := s.turns("quiet", 1)
		busy := s.turns("busy", 1000)
		require.Less(t, len(s.board.ended), 100)
		require.Equal(t, 4, s.board.kept)
		require.Equal(t, quiet, s.known("quiet"))
		require.Equal(t, busy[997:], s.known("busy"))
		for _, e := range s.board.ended {
			require.Equal(t, e.dropped, len(e.row.Spells) == 0, "what is dropped keeps no texts")
		}
		s.wait(25 * time.Hour)
		require.Empty(t, s.known("quiet"), "and what is kept goes in its time")
	})
}

func TestMarksOfARequestAreBounded(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.acquire(users, "ann")
		for i := range 3 * maxMarks {
			id := fmt.Sprint("p", i)
			s.join(users, id, level(9))
			s.ask(users, "ann", id, "outranked", time.Minute)
			s.leave(users, id)
			s.wait(time.Second)
		}
		marks := s.board.Timeline(users, time.Time{}, time.Time{}).Marks
		require.Len(t, marks, maxMarks)
		require.Equal(t, fmt.Sprint("p", 3*maxMarks-1), marks[maxMarks-1].From, "the newest")
		require.Equal(t, fmt.Sprint("p", 2*maxMarks), marks[0].From)
	})
}

func TestKnownEndsAreBoundedAndTheOldestGo(t *testing.T) {
	var k knownEnds
	h := func(i int) hold { return hold{scope: users, token: lock.Token(i)} }
	for i := range maxKnownEnds + 10 {
		k.put(h(i), knownEnd{end: EndReleased})
		k.put(h(i), knownEnd{end: EndLost, why: fmt.Sprint(i)}) // and once more
	}
	require.Len(t, k.m, maxKnownEnds)
	require.Len(t, k.queue, maxKnownEnds)
	for i := range 10 {
		_, ok := k.take(h(i))
		require.False(t, ok, i)
	}
	for i := 10; i < maxKnownEnds+10; i++ {
		end, ok := k.take(h(i))
		require.True(t, ok, i)
		require.Equal(t, knownEnd{EndLost, fmt.Sprint(i)}, end)
	}
}

// A reader of the stream, in steps of any size, gets each entry that is kept once,
// in order, and no other.
func TestRingGivesWhatIsKeptAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ring{most: rapid.IntRange(1, 8).Draw(t, "most")}
		var all []Entry
		for range rapid.IntRange(0, 30).Draw(t, "entries") {
			e := Entry{Text: fmt.Sprint(len(all))}
			r.add(e)
			e.N = uint64(len(all) + 1)
			all = append(all, e)
			oldest := max(0, len(all)-r.most)

			n := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.SampledFrom([]uint64{math.MaxUint64 - 1, math.MaxUint64})).Draw(t, "after")
			most := rapid.IntRange(-1, 10).Draw(t, "at most")
			want := append([]Entry{}, all[max(int(min(n, uint64(len(all)))), oldest):]...)
			if most > 0 {
				want = want[:min(len(want), most)]
			}
			require.Equal(t, want, r.after(n, most), "after %d, %d at most, of %d", n, most, len(all))
		}
	})
}

func TestChangesTellEachSnapshotOnce(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		next, end := iter.Pull(s.board.Changes(ctx))
		defer end()
		last := func() uint64 {
			n, ok := next()
			require.True(t, ok)
			require.Same(t, s.board.Now(), n, "the newest")
			return n.Version
		}
		version := last()

		// given some that were missed
		for i := range 5 {
			s.acquire(fmt.Sprint(i), "ann")
			s.settle()
		}
		missed := last()
		require.Greater(t, missed, version+1)

		// then there is none until there is another one
		time.AfterFunc(time.Minute, func() { s.board.Observe(ctx, skipped()) })
		began := time.Now()
		require.Equal(t, missed+1, last())
		require.GreaterOrEqual(t, time.Since(began), time.Minute)

		// and one that comes between two reads is not missed
		for range 20 {
			s.board.Observe(ctx, skipped())
			s.settle()
			n := last()
			require.Equal(t, s.board.Now().Version, n)
		}
		stop()
		_, ok := next()
		require.False(t, ok)
	})
}

func TestChangesTellNoSnapshotTwiceHoweverManyCome(t *testing.T) {
	b, err := New(Options{Source: &script{}, Now: time.Now})
	require.NoError(t, err)
	const many = 20_000
	go func() {
		views := map[string]Lock{}
		for range many {
			b.publish(views)
		}
	}()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var last *Snapshot
	for n := range b.Changes(ctx) {
		require.True(t, last == nil || n.Version > last.Version, "%d after %+v", n.Version, last)
		if last = n; n.Version == many {
			break
		}
	}
	require.Equal(t, uint64(many), last.Version, "the last one")
}

// What others have written may be anything, and much.
func TestStrangeTextsAreKeptShort(t *testing.T) {
	for name, text := range map[string]string{
		"long": strings.Repeat("é€😀", 400_000), "not UTF-8": strings.Repeat("\xff\xfe\x80", 100_000), "one letter without an end": strings.Repeat("\x80", 100_000),
		"control characters": strings.Repeat("\x1b[31m\x00\r\n", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Keep{}, func(t *testing.T, s *script) {
				strange := func(c *lock.Contender) { c.Owner, c.Host, c.Message = text, text, text }
				s.acquire(users, "ann", strange)
				s.join(users, "bob", strange, level(9))
				s.ask(users, "ann", "bob", "outranked", time.Minute)
				s.settle()
				s.takeOver(users, "ann", "outranked")
				s.breakLock(users, "bob", text, text)
				line := s.board.Timeline(users, time.Time{}, time.Time{})
				require.NotEmpty(t, line.Marks)
				require.Less(t, len(fmt.Sprintf("%+v", line)), 15_000)
				for _, e := range s.board.Entries(0, 0) {
					require.Less(t, len(fmt.Sprintf("%+v", e)), 2500)
				}
			})
		})
	}
}
