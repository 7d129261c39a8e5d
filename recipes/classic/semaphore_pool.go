package classic

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A pool is what one look shows of a semaphore.
type pool struct {
	limit   int
	taken   int
	version *zkclient.CheckVersionRequest // of the limit; nil when nothing says it
}

func (p pool) left() int { return max(0, p.limit-p.taken) }

// look counts the permits, and reads the limit. w, if not nil, is registered
// for changes.
func (m *Semaphore) look(ctx context.Context, s *zkclient.Session, w *zkclient.Watcher) (p pool, err error) {
	if err := m.readLimit(ctx, s, w, &p); err != nil {
		return p, err
	}
	var names []string
	if w == nil {
		names, _, err = s.List(ctx, m.leases.path)
	} else {
		names, _, err = s.LookAtChildren(ctx, m.leases.path, w)
	}
	if errors.Is(err, zkclient.ErrNoNode) {
		err = nil // no one was ever taken
	}
	p.taken = len(names)
	return p, err
}

func (m *Semaphore) readLimit(ctx context.Context, s *zkclient.Session, w *zkclient.Watcher, p *pool) error {
	if m.count == "" {
		p.limit = m.o.Limit
		return nil
	}
	for {
		var data []byte
		var stat *zkclient.Stat
		var err error
		if w == nil {
			data, stat, err = s.Get(ctx, m.count)
		} else {
			data, stat, err = s.Look(ctx, m.count, w)
		}
		if errors.Is(err, zkclient.ErrNoNode) {
			err = m.createLimit(ctx, s)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if m.o.Naming == NamingKazoo && len(data) == 0 {
			// Another client has made the node, and will write the limit, or does not
			// care.
			_, err := s.Set(ctx, m.count, m.encodeLimit(m.o.Limit), stat.Version)
			if err != nil && !errors.Is(err, zkclient.ErrBadVersion) && !errors.Is(err, zkclient.ErrNoNode) {
				return err
			}
			continue
		}
		limit, ok := m.decodeLimit(data)
		if !ok {
			return &LimitError{
				Path: m.name, Node: strings.TrimPrefix(m.count, m.c.Config().Chroot), Data: string(data), Wanted: m.o.Limit,
			}
		}
		p.limit, p.version = limit, &zkclient.CheckVersionRequest{Path: m.count, Version: stat.Version}
		return nil
	}
}

func (m *Semaphore) createLimit(ctx context.Context, s *zkclient.Session) error {
	_, err := s.Create(ctx, m.count, m.encodeLimit(m.o.Limit), 0)
	switch {
	case errors.Is(err, zkclient.ErrNodeExists):
		return nil
	case errors.Is(err, zkclient.ErrNoNode):
		return ensureParent(ctx, s, m.count)
	}
	return err
}

func (m *Semaphore) writeLimit(ctx context.Context, s *zkclient.Session, limit int) error {
	for {
		_, err := s.Set(ctx, m.count, m.encodeLimit(limit), -1)
		if !errors.Is(err, zkclient.ErrNoNode) {
			return err
		}
		if err := m.createLimit(ctx, s); err != nil {
			return err
		}
	}
}

// encodeLimit writes a limit as Curator's SharedCount does, or as Kazoo does.
func (m *Semaphore) encodeLimit(limit int) []byte {
	if m.o.Naming == NamingKazoo {
		return []byte(strconv.Itoa(limit))
	}
	return binary.BigEndian.AppendUint32(nil, uint32(limit))
}

// decodeLimit reads a limit, and reports false for what is none: with Kazoo's
// layout that is any other than this user's.
func (m *Semaphore) decodeLimit(data []byte) (int, bool) {
	if m.o.Naming == NamingKazoo {
		n, err := strconv.Atoi(strings.TrimSpace(string(data)))
		return n, err == nil && n == m.o.Limit
	}
	if len(data) != 4 {
		return 0, false
	}
	n := int32(binary.BigEndian.Uint32(data))
	return int(n), n >= 0
}

// permits reads who holds them.
func (m *Semaphore) permits(ctx context.Context, s *zkclient.Session) ([]Permit, error) {
	names, _, err := s.List(ctx, m.leases.path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := make([]Permit, 0, len(names))
	for _, name := range names {
		node := m.leases.path + "/" + name
		id, stat, err := s.Get(ctx, node)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			continue // returned meanwhile
		case err != nil:
			return nil, err
		}
		all = append(all, Permit{
			ID: string(id), Node: strings.TrimPrefix(node, m.c.Config().Chroot), Session: stat.EphemeralOwner,
			Since: time.UnixMilli(stat.Ctime), Token: lock.Token(stat.Czxid),
		})
	}
	slices.SortFunc(all, func(a, b Permit) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), strings.Compare(a.Node, b.Node))
	})
	return all, nil
}
