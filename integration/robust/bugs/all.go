package bugs

import (
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// All returns all bugs. docs/protocol.md has the guards that they remove.
func All() []Bug { //nolint:funlen // a table: one entry for each bug
	return []Bug{
		{
			Name:   "grab-without-version",
			Places: 1,
			What:   "T1 does not check the version of G: two newcomers find the lock idle, and both take it",
		},
		{
			Name:   "walk-in-without-version",
			Places: 1,
			What:   "T18 does not check the version of L: a reader that knew the lock to be open walks in beside a writer",
		},
		{
			Name:   "self-grant-without-version",
			Places: 1,
			What:   "T3 does not check the version of G: the first waiter grants itself beside a newcomer that was faster",
		},
		{
			Name:   "list-before-version",
			Places: 3,
			What:   "a waiter lists the contenders before it reads G: a holder that came in between looks dead",
			Quiet:  true,
		},
		{
			Name:   "hand-over-without-own-node",
			Places: 2,
			What:   "T4 does not contain the holder's own node: one that was taken over a moment ago hands over all the same",
			// It has to release when it is taken over, and to find a predecessor that
			// came after that; and the new holder has to stay. On a slow link the
			// transaction is on its way for long enough, but not if all links are slow;
			// that of a shared holder has a version to check.
			Tempo:   3,
			Readers: 1,
			Lanes:   8,
			Kinds:   []nemesis.Kind{nemesis.LinkSlow},
		},
		{
			Name:   "readers-hand-over-without-version",
			Places: 1,
			What: "T4 of a shared holder does not check the version of G: a reader that came in meanwhile is forgotten, " +
				"and believes that it holds",
		},
		{
			Name:   "one-reader-evicted",
			Places: 2,
			What:   "T7 evicts one of several readers only",
			// Several have to stay until somebody is forceful: many readers, and faults that
			// do not disturb.
			Readers: 75,
			Tempo:   3,
			Kinds:   []nemesis.Kind{nemesis.ClientClock},
		},
		{
			Name:   "no-session-deadline",
			Places: 2,
			What:   "a holder that is cut off goes on until it hears that its session is over",
			Quiet:  true,
		},
		{
			Name:   "answer-is-a-touch",
			Places: 1,
			What: "the deadline of the session counts from the last answer through the leader, " +
				"of which a follower may not have told the leader",
			// A tick as long as the session allows, and holds that last to the end of their session.
			Quiet:   true,
			Tempo:   10,
			Calm:    100,
			Tick:    time.Second,
			Session: 2 * time.Second,
			Kinds:   []nemesis.Kind{nemesis.FollowerKillAcked, nemesis.FollowerPauseAcked, nemesis.FollowerPartitionAcked},
		},
		{
			Name:   "release-before-cleanup",
			Places: 1,
			What:   "the lock is given away while cleanup hooks run",
		},
		{
			Name:   "token-of-the-place",
			Places: 2,
			What: "the token is that of the place in the queue, as a sequence number is, and not of the grant: " +
				"a more important request came later",
		},
		{
			Name:   "dead-waiter-goes-on",
			Places: 10,
			What: "T3, T6 and T7 do not contain the waiter's own node, and it does not look there either: " +
				"one whose session has ended goes on in the next one, and takes the lock although its place is gone",
			// Without the node in those transactions alone nothing follows: requests
			// are never sent in another session than they were made for.
			Quiet: true,
			Kinds: []nemesis.Kind{
				nemesis.LinkBlackhole, nemesis.LinkMute, nemesis.LinkHalfOpen, nemesis.SessionExpire, nemesis.SessionsExpire,
				nemesis.ClientKill,
			},
			Extra: `
// mark writes the own node apart.
func (p *place) mark(ctx context.Context, r []zkclient.MultiResponse) []zkclient.MultiResponse {
	_, _ = p.s.Set(ctx, p.path, p.grantedData(), p.version)
	return append(r, r[len(r)-1])
}

// goesOn goes on in the next session.
func (p *place) goesOn(ctx context.Context, err error) bool {
	if !errors.Is(err, zkclient.ErrSessionOver) {
		return false
	}
	s, err := p.a.l.c.Usable(ctx)
	if err == nil {
		p.s = s
	}
	return err == nil
}

// formerPosition is where the own node would be in the queue, and who would be in front of it.
func (p *place) formerPosition(children []child, holding func(child) bool) (pos int, pred child) {
	me, _ := parseChild(p.name)
	for _, c := range children { // in their order
		if c.level() < me.level() || c.level() == me.level() && c.place.Sequence-me.place.Sequence >= 0 {
			break
		}
		if !holding(c) {
			pos, pred = pos+1, c
		}
	}
	return pos, pred
}
`,
			Imports: []string{"context", "errors", "github.com/lockkeeper/lockkeeper/recipes/zkclient"},
		},
		{
			Name:   "grant-of-another-session",
			Places: 1,
			What: "a grant is not lost with the session under which it was made: " +
				"its holder believes in it on while the client has the next one",
			Quiet: true,
			Kinds: []nemesis.Kind{nemesis.SessionExpire, nemesis.SessionsExpire},
		},
		{
			Name:   "queue-without-priority",
			Places: 1,
			What:   "the queue is in the order of the sequence numbers alone: first come, first served, however important",
		},
		{
			Name:   "late-creates-stay",
			Places: 1,
			What: "a node whose creation was acknowledged after its caller had given up is not deleted: " +
				"no client knows of it, and it keeps the lock for as long as the session lives",
			// The create arrives, its reply does not or late, and the caller has given up
			// by then; the session stays, and no other request may take the lock by force.
			Calm:  100,
			Kinds: []nemesis.Kind{nemesis.LinkSlow, nemesis.LinkSlow, nemesis.LinkMute, nemesis.ReplyDrop},
		},
	}
}

// Named returns the bug with a name.
func Named(name string) (Bug, bool) {
	for _, b := range All() {
		if b.Name == name {
			return b, true
		}
	}
	return Bug{}, false
}
