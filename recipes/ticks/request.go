package ticks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Request asks any daemon that has a job to run it once, by hand.
type Request struct {
	ID     string // of the run that it leads to; set by Request
	Job    string
	By     string    // who asks
	Reason string    // and why
	Owner  string    // the process that asks; set by Request
	Host   string    // set by Request
	PID    int       // set by Request
	At     time.Time // server's clock; filled in when it is read
}

type requestNote struct {
	Format int    `json:"format"`
	Job    string `json:"job"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	tickOwner
}

// A RequestHandle is a request that was made. It stands until a daemon takes
// it, until Withdraw, or until the session of its client ends.
type RequestHandle struct {
	l       *Ledger
	request Request
}

// RequestLostError is returned by AwaitTaken for a request that is gone
// though no daemon has taken it: it was withdrawn, or the session of its client
// has ended.
type RequestLostError struct {
	Job string
	ID  string
}

func (e *RequestLostError) Error() string {
	return fmt.Sprintf("the request to run job %q is gone and no process has taken it: "+
		"it was withdrawn, or the ZooKeeper session has ended; ask again", e.Job)
}

// Request asks any daemon that has the job to run it. ID, Owner, Host, PID and
// At of r are set by it.
func (l *Ledger) Request(ctx context.Context, r Request) (*RequestHandle, error) {
	if _, err := l.path(r.Job); err != nil {
		return nil, err
	}
	r.ID, r.Owner, r.Host, r.PID, r.At = znode.NewGUID(), l.self.Owner, l.self.Host, l.self.PID, time.Time{}
	r.By, r.Reason = words.Clip(r.By, maxReason), words.Clip(r.Reason, maxReason)
	data := znode.Encode(requestNote{
		Format: znode.RecordFormat, Job: r.Job, By: r.By, Reason: r.Reason, tickOwner: l.self,
	})
	for try := 0; ; try++ {
		err := zkclient.PauseBefore(ctx, try)
		if err == nil {
			_, err = l.store.Create(ctx, l.requestPath(r.ID), data, zkclient.FlagEphemeral)
		}
		switch {
		case err == nil, errors.Is(err, zkclient.ErrNodeExists):
			return &RequestHandle{l: l, request: r}, nil
		case errors.Is(err, zkclient.ErrNoNode):
			err = l.store.Ensure(ctx, l.requests)
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			err = nil
		}
		if err != nil {
			return nil, fmt.Errorf("run of job %q not asked for: %w", r.Job, l.explain(ctx, err))
		}
	}
}

func (l *Ledger) requestPath(id string) string { return l.requests + "/" + id }

// ID returns the id of the request, and of the run that it leads to.
func (h *RequestHandle) ID() string { return h.request.ID }

// Withdraw takes the request back. taken tells that it came too late: a daemon
// runs the job, or has run it.
func (h *RequestHandle) Withdraw(ctx context.Context) (taken bool, err error) {
	l, path := h.l, h.l.requestPath(h.request.ID)
	for try := 0; ; try++ {
		if err = zkclient.PauseBefore(ctx, try); err == nil {
			_, err = l.store.Multi(ctx, &zkclient.DeleteRequest{Path: path, Version: -1})
		}
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			if taken, err = h.taken(ctx); err == nil {
				return taken, nil
			}
		}
		return false, fmt.Errorf("request to run job %q not withdrawn: %w", h.request.Job, l.explain(ctx, err))
	}
}

// AwaitTaken returns when a daemon has claimed the run: its state then knows a
// run of that ID. If the request is gone for another reason, the error is a
// *RequestLostError. It polls nothing.
func (h *RequestHandle) AwaitTaken(ctx context.Context) error {
	err := h.l.store.Await(ctx, h.l.requestPath(h.request.ID), false, func(sight zkclient.NodeSight) (bool, error) {
		return sight.Stat == nil, nil
	})
	var taken bool
	if err == nil {
		taken, err = h.taken(ctx)
	}
	switch {
	case err != nil:
		return fmt.Errorf("request to run job %q: %w", h.request.Job, h.l.explain(ctx, err))
	case !taken:
		return &RequestLostError{Job: h.request.Job, ID: h.request.ID}
	}
	return nil
}

// taken reports whether the job's record knows the run.
func (h *RequestHandle) taken(ctx context.Context) (bool, error) {
	path, err := h.l.path(h.request.Job)
	if err != nil {
		return false, err
	}
	data, stat, err := h.l.store.Get(ctx, path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	rec, err := decodeTick(data, stat)
	return rec.run(h.request.ID) >= 0 || rec.ended(h.request.ID) != nil, znode.InNode(err, path)
}

// Requests are requests to run jobs by hand.
type Requests struct {
	Standing   []Request             // oldest first
	Unreadable []zkclient.Unreadable // by path
}

func (r Requests) same(s Requests) bool {
	return slices.EqualFunc(r.Standing, s.Standing, func(a, b Request) bool { return a.ID == b.ID }) &&
		slices.EqualFunc(r.Unreadable, s.Unreadable, func(a, b zkclient.Unreadable) bool { return a.Path == b.Path })
}

// AwaitRequests returns the requests that there are as soon as they differ from
// seen. It polls nothing.
func (l *Ledger) AwaitRequests(ctx context.Context, seen Requests) (all Requests, err error) {
	for {
		err = l.store.Await(ctx, l.requests, true, func(sight zkclient.NodeSight) (bool, error) {
			if sight.Stat == nil {
				return false, zkclient.ErrNoNode
			}
			all, err = l.readRequests(ctx, sight.Names, seen)
			return !all.same(seen), err
		})
		if errors.Is(err, zkclient.ErrNoNode) {
			err = l.store.Ensure(ctx, l.requests)
			if err == nil {
				continue
			}
		}
		break
	}
	if err != nil {
		return Requests{}, fmt.Errorf("requests to run jobs: %w", l.explain(ctx, err))
	}
	return all, nil
}

// readRequests reads those that are not known: a request never changes.
func (l *Ledger) readRequests(ctx context.Context, names []string, known Requests) (all Requests, err error) {
	for _, id := range names {
		path := l.requestPath(id)
		if i := slices.IndexFunc(known.Standing, func(r Request) bool { return r.ID == id }); i >= 0 {
			all.Standing = append(all.Standing, known.Standing[i])
			continue
		}
		if i := slices.IndexFunc(known.Unreadable, func(u zkclient.Unreadable) bool { return u.Path == path }); i >= 0 {
			all.Unreadable = append(all.Unreadable, known.Unreadable[i])
			continue
		}
		data, stat, err := l.store.Get(ctx, path)
		var n requestNote
		if err == nil {
			err = znode.InNode(znode.Decode(data, &n, &n.Format), path)
		}
		bad, isBad := zkclient.LeftOut(err, path, "")
		switch {
		case errors.Is(err, zkclient.ErrNoNode): // gone meanwhile
		case isBad:
			all.Unreadable = append(all.Unreadable, bad)
		case err != nil:
			return Requests{}, err
		default:
			all.Standing = append(all.Standing, Request{
				ID: id, Job: n.Job, By: n.By, Reason: n.Reason, Owner: n.Owner, Host: n.Host, PID: n.PID,
				At: time.UnixMilli(stat.Ctime),
			})
		}
	}
	slices.SortFunc(all.Standing, func(a, b Request) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	zkclient.ByPath(all.Unreadable)
	return all, nil
}

// ClaimRequest takes a request and claims the manual run that it asks for, in
// one step. The verdict is claimed, taken: the request is gone; or overlap: limit
// runs go on, and the request stands. A pause does not refuse it.
func (l *Ledger) ClaimRequest(ctx context.Context, r Request, limit int) (Claim, error) {
	if !l.reserve(r.ID) {
		return Claim{Verdict: Taken}, nil // by another call of this process
	}
	c := l.newClaim(r.Job, runNote{
		ID: r.ID, Instant: r.At.UTC(), Manual: true, By: words.Clip(r.By, maxReason), Why: words.Clip(r.Reason, maxReason),
	})
	c.asked = true
	path := l.requestPath(r.ID)
	var unread error
	claim, err := c.do(ctx, nil, func(v *tickView) tickWrite {
		_, _, err := l.store.Get(ctx, path)
		if unread = err; errors.Is(err, zkclient.ErrNoNode) {
			unread = nil
		}
		if unread != nil {
			return tickWrite{}
		}
		return c.request(v, max(1, limit), path, err == nil)
	})
	if err == nil && unread != nil {
		l.close(r.ID)
		l.failing(r.Job)
		err = fmt.Errorf("request to run job %q not read: %w", r.Job, l.explain(ctx, unread))
	}
	return claim, err
}
