package classic

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A stand is one participant's place in a line: its node, from the creation on
// until it is left or becomes a hold.
type stand struct {
	l       *line
	s       *zkclient.Session
	name    string
	path    string
	lasting bool // not ephemeral: it outlives the session
	token   lock.Token

	wake    chan struct{}
	others  zkclient.Watcher
	watched string // the path of the one that is waited for
	ahead   int    // how many stand in front, as last seen
	front   string // the data of the one that is waited for, as last seen
	frontAt string // its name
}

var (
	// errEvicted: the participant's node was deleted by another client.
	errEvicted = errors.New("the node was deleted")
	// errInLine: another participant stands in front, and the caller does not
	// wait.
	errInLine = errors.New("another participant is in front")
)

// A rule returns which participant the one at index me has to wait for: the
// index of the nearest one, or -1 for none.
type rule func(queue []ticket, me int) int

// behindAll waits for the one that came right before.
func behindAll(_ []ticket, me int) int { return me - 1 }

// behindWriters lets those pass that are beside each other.
func behindWriters(queue []ticket, me int) int {
	for i := me - 1; i >= 0; i-- {
		if !queue[i].mark.shared && queue[i].sequence != queue[me].sequence {
			return i
		}
	}
	return -1
}

// An entry is an attempt to stand in line. It is known by its guid, for its
// outcome may be unknown for a while.
type entry struct {
	mark    mark
	data    []byte
	lasting bool
	token   lock.Token // of a place that was another's; 0: that of the node
	guid    string     // of an attempt that may have been executed; "": none
	place   *stand     // of one that has outlived its session
}

// join creates the participant's node at the end of the line. After an error
// the node is gone, or will be; only a lasting one whose session is over has to
// be looked for in the next, by another call with the same entry.
func (l *line) join(ctx context.Context, s *zkclient.Session, e *entry) (*stand, error) {
	switch {
	case e.place != nil:
		e.place.s = s
		return e.place, nil
	case e.guid != "":
		found, err := l.find(ctx, s, e.guid, e.lasting)
		switch {
		case err != nil:
			return nil, l.abandon(s, e, err)
		case found != "":
			return l.newStand(s, found, e), nil
		}
	}
	flags := int32(zkclient.FlagSequence)
	if !e.lasting {
		flags |= zkclient.FlagEphemeral
	}
	for tries := 0; ; {
		e.guid = newUUID()
		node := l.path + "/" + l.prefix(e.guid, e.mark)
		created, err := s.CreateNamed(ctx, node, e.data, flags, l.access(node))
		switch {
		case err == nil:
			return l.newStand(s, created, e), nil
		case errors.Is(err, zkclient.ErrNoNode):
			// A container may be removed again before a participant stands in it; a
			// directory that stays is the last resort.
			tries++
			if err := l.ensure(ctx, s, l.naming == NamingCurator && tries <= 3); err != nil &&
				!errors.Is(err, zkclient.ErrAmbiguous) {
				e.guid = ""
				return nil, err
			}
		case errors.Is(err, zkclient.ErrAmbiguous):
			found, err := l.find(ctx, s, e.guid, e.lasting)
			switch {
			case err != nil:
				return nil, l.abandon(s, e, err)
			case found != "":
				return l.newStand(s, found, e), nil
			}
		case errors.Is(err, zkclient.ErrSessionOver) && e.lasting:
			return nil, l.abandon(s, e, err)
		default:
			e.guid = ""
			return nil, err
		}
	}
}

func (l *line) newStand(s *zkclient.Session, node string, e *entry) *stand {
	p := &stand{
		l: l, s: s, name: node[len(l.path)+1:], path: node, lasting: e.lasting, token: e.token, wake: make(chan struct{}, 1),
	}
	e.guid = ""
	if e.lasting {
		e.place = p
	}
	p.others = func(zkclient.WatchKind) {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return p
}

// findContender looks for the node of an attempt after a lost reply. The session has
// caught up since, so what is not there was not executed. A node that belongs
// to another session is deleted, it will not live as long as this one. "": not
// there.
func (l *line) find(ctx context.Context, s *zkclient.Session, guid string, lasting bool) (string, error) {
	for {
		names, _, err := s.List(ctx, l.path)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			return "", nil
		case err != nil:
			return "", err
		}
		node := ""
		for _, name := range names {
			if l.owns(name, guid) {
				node = l.path + "/" + name
			}
		}
		if node == "" || lasting {
			return node, nil
		}
		_, stat, err := s.Get(ctx, node)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			return "", nil
		case err != nil:
			return "", err
		case stat.EphemeralOwner == s.SessionID():
			return node, nil
		}
		return "", s.DeleteSurely(ctx, node)
	}
}

// abandon says why an attempt has no outcome, and undoes it in the background.
func (l *line) abandon(s *zkclient.Session, e *entry, err error) error {
	guid := e.guid
	switch {
	case !e.lasting:
		e.guid = ""
		l.c.Background(func() {
			ctx := context.Background()
			if node, err := l.find(ctx, s, guid, false); err == nil && node != "" {
				_ = s.DeleteSurely(ctx, node)
			}
		})
	case !errors.Is(err, zkclient.ErrSessionOver):
		e.guid = ""
		l.c.Background(func() { l.removeAttempt(guid) })
	}
	return err
}

// removeAttempt removes what an attempt may have left that outlives sessions.
func (l *line) removeAttempt(guid string) {
	_ = l.c.Reading(l.c.Closing(), func(s *zkclient.Session) error {
		node, err := l.find(l.c.Closing(), s, guid, true)
		if err != nil || node == "" {
			return err
		}
		return s.DeleteOnce(l.c.Closing(), node)
	})
}

// wait returns when the participant has to wait for no other any more. It
// returns errEvicted when the node is gone, and errInLine if it would have to
// wait but is not to.
func (p *stand) wait(ctx context.Context, r rule, patient bool, tell func()) error {
	defer p.watch("")
	for {
		err := p.look(ctx, r, patient)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, errAgain):
			continue // reads decide, as soon as there is a connection
		case !errors.Is(err, errInLine) || !patient:
			return err
		}
		if tell != nil {
			tell()
			tell = nil
		}
		if err := p.block(ctx); err != nil {
			return err
		}
	}
}

func (p *stand) block(ctx context.Context) error {
	timer := time.NewTimer(zkclient.SafetyPoll)
	defer timer.Stop()
	select {
	case <-p.wake:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.s.Over():
		return p.s.Err()
	}
	return nil
}

// look decides whether there is a participant to wait for, and watches that one
// alone.
func (p *stand) look(ctx context.Context, r rule, patient bool) error {
	queue, err := p.l.queue(ctx, p.s)
	if err != nil {
		return err
	}
	me := -1
	for i, t := range queue {
		if t.name == p.name {
			me = i
		}
	}
	if me < 0 {
		return errEvicted
	}
	front := r(queue, me)
	if front < 0 {
		return nil
	}
	p.ahead, p.frontAt = front+1, queue[front].name
	if !patient {
		return errInLine
	}
	node := p.l.path + "/" + queue[front].name
	p.watch(node)
	// Its data, not its existence: the watch on a node that is gone already
	// could not be taken back.
	data, _, err := p.s.Look(ctx, node, &p.others)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return errAgain
	case err != nil:
		return err
	}
	p.front = string(data)
	return errInLine
}

// watch drops the watch on any other participant.
func (p *stand) watch(node string) {
	if p.watched != "" && p.watched != node {
		p.s.Unwatch(p.watched, &p.others)
	}
	p.watched = node
}

// giveUp removes what an entry has left that outlives sessions.
func (l *line) giveUp(e *entry) {
	switch {
	case e.place != nil:
		if err := l.c.DeleteSurely(context.Background(), e.place.path); err != nil && !errors.Is(err, zkclient.ErrNoNode) {
			l.c.Log().Error("cannot leave the queue; delete the node by hand", "node", e.place.path, "error", err)
		}
	case e.guid != "":
		l.c.Background(func() { l.removeAttempt(e.guid) })
	}
}

// leave removes the node, however long that takes.
func (p *stand) leave() {
	if err := p.s.DeleteSurely(context.Background(), p.path); err != nil {
		p.l.c.Log().Error("cannot leave the queue; the node stays until the session ends", "node", p.path, "error", err)
	}
}
