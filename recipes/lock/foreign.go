package lock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// What others have put where only clients of this package should write: see
// "Foreign nodes" in docs/protocol.md.

// isUnusable reports whether err is about one node alone, which cannot be read
// by this program, must not be, or has no room for what is to be written: it says
// nothing about the connection.
func isUnusable(err error) bool {
	return errors.As(err, new(*znode.RecordError)) || errors.As(err, new(*zkclient.AccessError)) ||
		errors.As(err, new(*zkclient.TooLargeError))
}

// maxContender bounds the data of a contender's node. A hand-over writes them
// again, and what is longer than a request of ZooKeeper cannot be written.
const maxContender = 512 << 10

// errStranger: a node with a contender's name that is none.
var errStranger = errors.New("the node is no request")

// whyStranger says why a node with a contender's name is none, for the request
// that would have to wait for it; "" if it is one, or a newer program's. err is
// of the attempt to read it.
func whyStranger(data []byte, stat *zkclient.Stat, err error) string {
	switch {
	case errors.As(err, new(*zkclient.AccessError)):
		return zkclient.WhyDenied
	case err != nil:
		return ""
	case !zkclient.IsEphemeral(stat):
		return "it is not ephemeral"
	case len(data) > maxContender:
		return fmt.Sprintf("its data take %d bytes", len(data))
	}
	if _, err := decodeContender(data); err != nil && !znode.IsNewer(err) {
		return "its data are no request"
	}
	return ""
}

// strangers are the nodes in queues that have a contender's name and are none.
// Only their data shows that, a list does not. They are passed over. After a
// while each is read again: a request whose node was overwritten restores it.
type strangers struct {
	mu sync.Mutex
	m  map[string]time.Time // until when they are passed over, by path
}

const (
	strangerFor  = 5 * time.Second
	maxStrangers = 1 << 14 // when there are more it starts afresh
)

// meet takes note of a stranger, and reports whether it is new.
func (t *strangers) meet(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxStrangers {
		t.m = make(map[string]time.Time)
	}
	_, known := t.m[node]
	t.m[node] = time.Now().Add(strangerFor)
	return !known
}

// knows reports whether a node was a stranger when it was last read.
func (t *strangers) knows(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.m[node]
	return known
}

// drop takes those out of the contenders of a lock that are strangers; never
// those with these guids: the caller's own, and those in G. A client that has
// not read G must not take a lock where any were dropped: one may have been
// granted since.
func (t *strangers) drop(lock string, children []child, but ...string) []child {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.m) == 0 {
		return children
	}
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(children), func(c child) bool {
		until, known := t.m[lock+"/"+c.name]
		return known && now.Before(until) && !slices.Contains(but, c.guid)
	})
}

// pass takes note of a node that is to be passed over.
func (l *PriorityLock) pass(name, why string) {
	node := l.path + "/" + name
	if l.cache.strangers.meet(node) {
		l.c.Log().Warn("passing over a node that is no request", "node", node, "why", why)
	}
}

// unmask reads the nodes that keep a try from the lock, and reports whether
// some of them are no requests. A node that G names holds the lock, whatever it
// says.
func (l *PriorityLock) unmask(ctx context.Context, s *zkclient.Session, seen []child) bool {
	data, _, err := s.Get(ctx, l.path)
	if err != nil {
		return false
	}
	g, err := decodeLock(data)
	if err != nil || slices.ContainsFunc(seen, func(c child) bool { return slices.Contains(g.Holders, c.guid) }) {
		return false
	}
	found := false
	for _, c := range seen[:min(len(seen), 64)] {
		data, stat, err := s.Get(ctx, l.path+"/"+c.name)
		if why := whyStranger(data, stat, err); why != "" && (!c.walked || g.planted(c, stat)) {
			l.pass(c.name, why)
			found = true
		} else if err == nil {
			break // a request is there
		}
	}
	return found
}

// deserted reports whether no request is at a lock whose list shows only
// strangers, at that version.
func (l *PriorityLock) deserted(
	ctx context.Context, s *zkclient.Session, children []child, version int32,
) (bool, error) {
	data, stat, err := s.Get(ctx, l.path)
	if err != nil {
		return false, err
	}
	g, err := decodeLock(data)
	if err != nil || stat.Version != version {
		return false, nil //nolint:nilerr // a closer look tells
	}
	return !slices.ContainsFunc(children, func(c child) bool { return slices.Contains(g.Holders, c.guid) }), nil
}

// grants reads G at a version, and mends it when a foreign client has written
// there: each holder's own node records its grant as well, and a holder without
// its node no longer holds. Requests that cannot be read count as granted,
// unless they were strangers before. Where readers may walk in it ends that. It
// returns errAgain when it was mended or shut, or has changed.
func (l *PriorityLock) grants(
	ctx context.Context, s *zkclient.Session, data []byte, version int32,
) (lockRecord, error) {
	g, err := decodeLock(data)
	switch {
	case err == nil && g.Open:
		return g, l.shut(ctx, s, version)
	case err == nil || znode.IsNewer(err):
		return g, znode.InNode(err, l.path)
	}
	return l.rewrite(ctx, s, version, func([]byte) (lockRecord, error) {
		g, err := l.restored(ctx, s)
		if err == nil {
			l.c.Log().Warn("the lock node is overwritten: restoring it from the requests", "node", l.path, "holders", g.Holders)
		}
		return g, err
	})
}

// rewrite puts another G in the place of that of a version. It returns errAgain
// when it has, or another client was faster.
//
// The writer need not have a node there, so the lock may be removed, and
// created anew with that version: the epoch shows that, read from before the
// version on.
func (l *PriorityLock) rewrite(
	ctx context.Context, s *zkclient.Session, version int32, anew func(data []byte) (lockRecord, error),
) (g lockRecord, err error) {
	epoch, err := l.cache.rootEpoch(ctx, s)
	if err != nil {
		return g, err
	}
	data, now, err := s.Get(ctx, l.path)
	switch {
	case err != nil:
		return g, err
	case now.Version != version:
		return g, errAgain
	}
	if g, err = anew(data); err != nil {
		return g, err
	}
	_, failed, err := s.Multi(ctx,
		&zkclient.CheckVersionRequest{Path: l.c.Root(), Version: epoch},
		&zkclient.SetDataRequest{Path: l.path, Data: g.encode(), Version: version})
	if failed == 0 && errors.Is(err, zkclient.ErrBadVersion) {
		l.cache.epoch.CompareAndSwap(epoch, -1)
	}
	if err == nil || errors.Is(err, zkclient.ErrBadVersion) {
		err = errAgain
	}
	return g, err
}

// restored is G as the requests' own nodes tell it. It is valid only if G was
// not written since before.
func (l *PriorityLock) restored(ctx context.Context, s *zkclient.Session) (lockRecord, error) {
	names, _, err := s.List(ctx, l.path)
	if err != nil {
		return lockRecord{}, err
	}
	children, _ := parseChildren(names)
	granted := make([]bool, len(children))
	notes := make([][]delayNote, len(children))
	reads, inner := errgroup.WithContext(ctx)
	reads.SetLimit(16)
	for i, c := range children {
		reads.Go(func() error {
			node := l.path + "/" + c.name
			data, stat, err := s.Get(inner, node)
			switch {
			case errors.Is(err, zkclient.ErrNoNode):
				return nil
			case errors.As(err, new(*zkclient.AccessError)):
				granted[i] = !l.cache.strangers.knows(node)
				return nil
			case err != nil:
				return err
			}
			rec, err := decodeContender(data)
			notes[i] = rec.delayNotes(c.guid)
			granted[i] = rec.Granted || err != nil && zkclient.IsEphemeral(stat) && !l.cache.strangers.knows(node)
			return nil
		})
	}
	if err := reads.Wait(); err != nil {
		return lockRecord{}, err
	}
	g := lockRecord{Format: znode.RecordFormat, Holders: []string{}}
	for i, c := range children {
		switch {
		case c.walked: // its name says so
			g.Walked = true
		case granted[i]:
			g.Holders, g.Delays = append(g.Holders, c.guid), append(g.Delays, notes[i]...)
		}
	}
	return g, nil
}

// --- members of a record that this program does not know --------------------------

// fieldsOf returns the names of a record's members.
func fieldsOf(record any) []string {
	var names []string
	for field := range reflect.TypeOf(record).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

var (
	contenderFields = fieldsOf(contenderRecord{})
	askingFields    = fieldsOf(askingNote{})
)

// unknownIn returns the members of an object that are not in known. A newer
// program with the same format may have more; a client that writes its node for
// it keeps them. Nil: there are none.
func unknownIn(data []byte, known []string) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	for name := range all {
		// As the decoder does, which takes "Owner" for "owner".
		if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// withUnknown appends members to an encoded object that is not empty.
func withUnknown(object []byte, unknown map[string]json.RawMessage) []byte {
	if len(unknown) == 0 {
		return object
	}
	more := znode.Encode(unknown)
	return slices.Concat(bytes.TrimSuffix(object, []byte("}")), []byte(","), more[1:])
}
