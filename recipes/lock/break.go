package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A BreakRequest says whose lock is broken, by which operator and why. All of
// it is required but Authorize.
type BreakRequest struct {
	Scope string

	// Token is that of the holder that is meant. A later holder has a greater one,
	// so a token that was noted down too early breaks no later hold.
	Token Token

	// By is who does it, for the victim and for the record: at most 200 bytes.
	// Reason is why: at most 1000 bytes.
	By, Reason string

	// Authorize, when set, is called before the lock is broken, with the holder, or
	// with all members of its hold; and again if there are others by then. An error
	// keeps it from being broken. It may still run when Break has returned because its
	// context has ended.
	Authorize func(ctx context.Context, holders []Contender) error
}

// Break takes the lock of a scope from the one holder with that token, without
// a preemption: its node is deleted and the lock node names the operator and
// the reason, in one transaction. The holder gets the notice Lost with
// LossBroken. The lock goes to the first in line; other shared holders keep it.
// All members of a hold (Request.Hold) have one token, and go together. Break
// returns the holder as it was, of several members the first.
//
// The holder may go on working until it learns of it: at the latest at its
// session's deadline, see Grant.Deadline. Until then its token alone keeps it
// from doing harm.
//
// When ctx ends first the lock may be broken all the same. Break returns
//
//   - *StaleTokenError: no client holds the lock with that token (any more)
//   - *NotHeldError: no client holds the lock
//   - *IdentityError: the client has no credentials, or is no operator's
//   - *RequestError: something is missing or too long
//   - *UnavailableError: ZooKeeper does not answer
//   - what Authorize has returned, wrapped
func (c *Client) Break(ctx context.Context, r BreakRequest) (Contender, error) {
	name, err := r.complete()
	if err != nil {
		return Contender{}, err
	}
	if err := c.CheckOperator(ctx, fmt.Sprintf("lock %q not broken", r.Scope)); err != nil {
		return Contender{}, err
	}
	b := &breaking{c: c, req: r, lock: lockPath(c.Root(), name)}
	return zkclient.Promptly(ctx, c.Client, func() (Contender, error) {
		err := c.Inspecting(ctx, func(s *zkclient.Session) error { return b.in(ctx, s) }) // it makes no nodes
		if err = cmp.Or(err, b.refused); err != nil {
			return Contender{}, err
		}
		return b.victim, nil
	}, nil)
}

// complete reports what is missing, and returns the name of the lock's node.
func (r *BreakRequest) complete() (name string, err error) {
	name, err = znode.EscapeScope(r.Scope)
	errs := []error{err}
	if r.Token <= 0 {
		errs = append(errs, &zkclient.RequestError{
			Field:  "token",
			Reason: fmt.Sprintf("%s is no token; write that of the holder, see `lockkeeper locks show %s`", r.Token, r.Scope),
		})
	}
	for _, text := range []struct {
		field, meaning string
		value          *string
		limit          int
	}{{"by", "who breaks the lock", &r.By, maxMarkBy}, {"reason", "why the lock is broken", &r.Reason, maxMarkReason}} {
		switch *text.value = znode.Valid(*text.value); {
		case strings.TrimSpace(*text.value) == "":
			errs = append(errs, &zkclient.RequestError{Field: text.field, Reason: "is empty; write " + text.meaning})
		case len(*text.value) > text.limit:
			errs = append(errs, &zkclient.RequestError{
				Field: text.field, Reason: fmt.Sprintf("takes %d bytes; the limit is %d", len(*text.value), text.limit),
			})
		}
	}
	return name, errors.Join(errs...)
}

// breaking is one call of Break, over several sessions if need be.
type breaking struct {
	c      *Client
	req    BreakRequest
	lock   string // path
	victim Contender
	notes  []evictionNote // of the last try
	agreed []string       // the guids with which Authorize was called
	unsure bool           // an earlier try may have done it

	at int64 // server's time when the holder was found

	refused error // by Authorize
}

// in breaks the lock, within one session.
func (b *breaking) in(ctx context.Context, s *zkclient.Session) error {
	for {
		v, err := b.look(ctx, s)
		switch {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return err
		case len(v.victims) == 0:
			if b.unsure && slices.ContainsFunc(v.g.Evicted, b.notes[0].same) {
				return nil
			}
			return b.missed(v)
		}
		b.victim = v.victims[0].holder
		if b.at == 0 {
			b.at = v.now
		}
		if guids := v.meantAll(); b.req.Authorize != nil && !slices.Equal(guids, b.agreed) {
			if err := b.req.Authorize(ctx, v.holders()); err != nil {
				b.refused = fmt.Errorf("lock %q not broken: not authorized: %w", b.req.Scope, err)
				return nil // whatever it wraps, it is not to be tried again
			}
			b.agreed = guids
			continue // that may have taken its time
		}
		b.notes = b.notes[:0]
		ops := make([]any, 0, len(v.victims)+1)
		for _, x := range v.victims {
			b.notes = append(b.notes, b.note(x.holder))
			ops = append(ops, &zkclient.DeleteRequest{Path: x.path, Version: x.version})
		}
		b.notes = brief(b.notes)
		next := lockRecord{Evicted: v.g.evict(b.notes...), Walked: v.g.Walked, Delays: v.g.carry(v.lock, v.others())}
		for _, holder := range v.present { // a member of the hold that is dead could be resumed
			if !v.meant(holder.ID) {
				next.Holders = append(next.Holders, holder.ID)
			}
		}
		ops = append(ops, &zkclient.SetDataRequest{Path: b.lock, Data: next.encode(), Version: v.lock.Version})
		_, _, err = s.Multi(ctx, ops...)
		switch {
		case err == nil:
			cacheOf(b.c).hints.crowded(b.lock)
			return nil
		case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
			// something has happened: look again
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			b.unsure = true
			return err
		default:
			return err
		}
	}
}

// note is what the lock node says of a victim.
func (b *breaking) note(victim Contender) evictionNote {
	return evictionNote{ID: victim.ID, Owner: victim.Owner, By: b.req.By, Why: b.req.Reason, At: b.at}
}

// A breakView is the lock as one that breaks it sees it.
type breakView struct {
	lock    *zkclient.Stat // of the lock node, read before all else
	g       lockRecord
	there   []child
	victims []breakVictim // the holders with the token: one, or the members of a hold
	present []Contender   // all who hold
	now     int64         // server's time; 0: no holder
}

// A breakVictim is a holder that is to be evicted.
type breakVictim struct {
	path    string // of its node
	version int32
	holder  Contender
}

// holders describes the victims.
func (v *breakView) holders() []Contender {
	all := make([]Contender, len(v.victims))
	for i, x := range v.victims {
		all[i] = x.holder
	}
	return all
}

// meantAll are the guids of the victims, sorted.
func (v *breakView) meantAll() []string {
	all := make([]string, len(v.victims))
	for i, x := range v.victims {
		all[i] = x.holder.ID
	}
	slices.Sort(all)
	return all
}

// meant reports whether a guid is that of a victim.
func (v *breakView) meant(guid string) bool {
	return slices.ContainsFunc(v.victims, func(x breakVictim) bool { return x.holder.ID == guid })
}

// look finds the holder with the token. It returns errAgain when one has left
// meanwhile.
func (b *breaking) look(ctx context.Context, s *zkclient.Session) (v breakView, err error) {
	data, stat, err := s.Get(ctx, b.lock)
	if errors.Is(err, zkclient.ErrNoNode) {
		return v, nil // it was never locked
	} else if err != nil {
		return v, err
	}
	v.lock = stat
	lock := newPriorityLock(b.c, b.req.Scope, b.lock)
	if v.g, err = lock.grants(ctx, s, data, stat.Version); err != nil {
		return v, err
	}
	names, _, err := s.List(ctx, b.lock)
	if errors.Is(err, zkclient.ErrNoNode) {
		return v, errAgain
	} else if err != nil {
		return v, err
	}
	v.there, _ = parseChildren(names)
	for _, child := range v.there {
		if !v.g.holds(child) {
			continue
		}
		if v.now == 0 {
			if v.now, err = b.c.ServerNow(ctx, s); errors.Is(err, zkclient.ErrNoAuth) {
				v.now = time.Now().UnixMilli() // nearly right
			} else if err != nil {
				return v, err
			}
		}
		path := b.lock + "/" + child.name
		n, err := readRequest(ctx, s, path)
		if errors.Is(err, zkclient.ErrNoNode) {
			return v, errAgain
		} else if err != nil {
			return v, err
		}
		rec, stat := n.rec, n.stat
		holder := rec.contender(child, stat)
		unread := cmp.Or(n.err, n.bad)
		if bad, isBad := zkclient.LeftOut(unread, path, b.req.Scope); isBad {
			holder = unreadableContender(child, stat, told(unread, bad), true)
			rec.Token = holder.Token
		}
		holder.Remaining = rec.remaining(stat, v.now)
		v.present = append(v.present, holder)
		if rec.token(stat) == b.req.Token {
			v.victims = append(v.victims, breakVictim{path: path, version: stat.Version, holder: holder})
		}
	}
	if len(v.victims) > 1 { // shared ones that were granted together have one token, and are strangers
		last := v.victims[len(v.victims)-1].holder
		v.victims = slices.DeleteFunc(v.victims, func(x breakVictim) bool {
			return x.holder.ID != last.ID && (last.Hold == "" || x.holder.Hold != last.Hold)
		})
	}
	return v, nil
}

// others are those who are there but the holders that are meant.
func (v *breakView) others() []child {
	return slices.DeleteFunc(slices.Clone(v.there), func(c child) bool { return v.meant(c.guid) })
}

// missed says why there is no hold to break.
func (b *breaking) missed(v breakView) error {
	if len(v.present) == 0 {
		return &NotHeldError{Scope: b.req.Scope, Token: b.req.Token}
	}
	return &StaleTokenError{Scope: b.req.Scope, Token: b.req.Token, Holders: v.present}
}

// NotHeldError is returned by Client.Break for a lock that has no holder.
type NotHeldError struct {
	Scope string
	Token Token // of the holder that was meant
}

func (e *NotHeldError) Error() string {
	return fmt.Sprintf("lock %q not broken: no client holds it; there is nothing to do", e.Scope)
}

// StaleTokenError is returned by Client.Break when none of those who hold the
// lock has that token: most likely the one that was meant has left. Nothing has
// changed.
type StaleTokenError struct {
	Scope   string
	Token   Token       // that was given
	Holders []Contender // who has the lock now
}

func (e *StaleTokenError) Error() string {
	return fmt.Sprintf("lock %q not broken: none of its holders has the token %s%s; look who has it now and with which "+
		"token: lockkeeper locks show %s", e.Scope, e.Token, describeHolders(e.Holders), e.Scope)
}
