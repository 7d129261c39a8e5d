package lock

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

const (
	deadID, aliveID = "dead00000000000000000000", "a11e00000000000000000000"
	firstLeader     = int64(3) << 32
	nextLeader      = int64(4) << 32
)

// writtenAt is the stat of a lock node that was written then.
func writtenAt(at, zxid int64) *zkclient.Stat { return &zkclient.Stat{Mtime: at, Mzxid: zxid + at} }

// unclean is a G in which the end of one hold, with a delay of a second, is
// marked.
func unclean(mark *endMark) lockRecord {
	return lockRecord{Delays: []delayNote{{ID: deadID, Delay: 1000, Ended: mark}}}
}

func TestEndOfAHoldIsMarkedByTheNextWriteAndCountsFromIt(t *testing.T) {
	// given a G in which the end of a hold is not noticed
	g := unclean(nil)
	require.False(t, g.Delays[0].over(writtenAt(1_000_000, firstLeader)), "however old it is")

	// when it is written, and again
	g.Delays = g.carry(writtenAt(5000, firstLeader), nil)
	require.Equal(t, &endMark{}, g.Delays[0].Ended)
	g.Delays = g.carry(writtenAt(7000, firstLeader), nil)
	require.Equal(t, &endMark{At: 7000, Epoch: 3}, g.Delays[0].Ended, "7000 was when the mark was written")

	// then it is over when the node was written more than the delay later
	g.Delays = g.carry(writtenAt(8000, firstLeader), nil)
	require.Len(t, g.Delays, 1, "the times may be cut by nearly a millisecond")
	g.Delays = g.carry(writtenAt(8001, firstLeader), nil)
	require.Empty(t, g.Delays)
}

func TestMarkOfAnotherLeaderOrOfAClockThatWasSetBackCountsAnew(t *testing.T) {
	for name, stat := range map[string]*zkclient.Stat{
		"another leader's clock": writtenAt(90_000, nextLeader),
		"a clock set back":       writtenAt(6999, firstLeader),
		"no clock":               writtenAt(7000, firstLeader),
	} {
		t.Run(name, func(t *testing.T) {
			g := unclean(&endMark{At: 7000, Epoch: 3})
			if name == "no clock" {
				g.Delays[0].Ended.At = math.MinInt64 // another program has written it
			}
			require.False(t, g.Delays[0].over(stat))
			g.Delays = g.carry(stat, nil)
			require.Equal(t, &endMark{}, g.Delays[0].Ended)
		})
	}
}

func TestWriteThatChangesNothingLeavesTheTimeOfAMark(t *testing.T) {
	g := unclean(&endMark{})
	data := again(g.encode(), writtenAt(7000, firstLeader))
	g, err := decodeLock(data)
	require.NoError(t, err)
	require.Equal(t, &endMark{At: 7000, Epoch: 3}, g.Delays[0].Ended)

	for _, data := range [][]byte{nil, soleHolder(aliveID), lockRecord{Holders: []string{deadID, aliveID}}.encode(), []byte(`{"format":9,"holders":["` + deadID + `"],"more":"to come"}`)} {
		require.Equal(t, data, again(data, writtenAt(7000, firstLeader)))
	}
}

func TestNoteOfOneThatIsPresentTellsOfNoEnd(t *testing.T) {
	present := []child{{guid: aliveID}}
	g := lockRecord{Delays: []delayNote{{ID: aliveID, Delay: 1000}, {ID: deadID, Delay: 1000, Shared: true}}}
	stat := writtenAt(7000, firstLeader)
	carried := g.carry(stat, present)
	require.Equal(t, []delayNote{{ID: aliveID, Delay: 1000}, {ID: deadID, Delay: 1000, Shared: true, Ended: &endMark{}}}, carried)
	require.Equal(t, carried[1:], barring(carried, priority.Exclusive, present))
	require.Empty(t, barring(carried, priority.Shared, present))
	require.Len(t, barring(carried, priority.Shared, nil), 1)

	// a clean end takes one's own note away, and leaves those of others
	g.Holders = []string{deadID, aliveID}
	rest := g.without(aliveID, stat, nil)
	require.Equal(t, carried[1:], rest.Delays)
	require.Equal(t, []string{deadID}, rest.Holders)

	// and one that is there has not ended, whatever a note says
	g.Delays[0].Ended = &endMark{At: 1, Epoch: 3}
	require.Nil(t, g.carry(stat, present)[0].Ended)
}

func TestDelayThatCannotBeIsBounded(t *testing.T) {
	data := []byte(`{"format":2,"holders":[],"delays":[{"id":"` + deadID + `","delay_ms":-1},{"id":"` + aliveID + `","delay_ms":9223372036854775807}]}`)
	g, err := decodeLock(data)
	require.NoError(t, err)
	left := g.carry(writtenAt(7000, firstLeader), nil)
	require.Len(t, left, 1)
	require.Equal(t, priority.MaxLockDelay, left[0].delay())
}

// What the server's clock tells and what the own one has counted: the earlier one
// counts, and of the server's times, which are cut to milliseconds, the later.
func TestReplyTellsHowMuchOfADelayIsLeft(t *testing.T) {
	p := &place{s: unconnected(t).Current()}
	marked := unclean(&endMark{At: 7000, Epoch: 3}).Delays

	before := p.s.Now()
	p.noticed(marked, writtenAt(7400, firstLeader))
	over := p.sights[deadID].over
	require.GreaterOrEqual(t, over.Sub(before), 601*time.Millisecond)
	require.LessOrEqual(t, over.Sub(p.s.Now()), 601*time.Millisecond)

	own := p.s.Now().Add(time.Millisecond)
	p.see(deadID, sight{over: own})
	p.noticed(marked, writtenAt(7400, firstLeader))
	require.Equal(t, sight{over: own, timed: true}, p.sights[deadID])
}

func TestLockRecordIsOfTheNewFormatAsLongAsThereIsANote(t *testing.T) {
	require.JSONEq(t, `{"format":2,"holders":[],"delays":[{"id":"`+deadID+`","delay_ms":1000,"ended":{}}]}`, string(unclean(&endMark{}).encode()))
	require.Equal(t, `{"format":1,"holders":[]}`, string(lockRecord{}.encode())) //nolint:testifylint // to the byte
	require.Greater(t, len(unclean(nil).encode()), soleHolderLength, "a client that looks at the length alone reads it")
}

func TestRequestWithALockDelayIsOfTheNewFormat(t *testing.T) {
	c := unconnected(t)
	require.Equal(t, znode.RecordFormat, newRecord(c, Request{}).Format)
	r := newRecord(c, Request{Terms: priority.Terms{LockDelay: time.Second + 1, Mode: priority.Shared}, Identity: priority.Identity{Owner: strings.Repeat("o", 100)}})
	require.Equal(t, delayFormat, r.Format)
	notes := r.delayNotes(deadID)
	require.Len(t, notes, 1)
	require.Equal(t, int64(1001), notes[0].Delay, "rather longer than shorter")
	require.Len(t, notes[0].Owner, maxDelayOwner)
	require.True(t, notes[0].Shared)

	r.Owner = string(make([]byte, 100)) // six bytes each, as they are written
	require.Len(t, r.delayNotes(deadID)[0].Owner, maxDelayOwner/6)
}
