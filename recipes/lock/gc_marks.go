package lock

import (
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// gcRecord is the data of <root>/gc: transactions of which is known when they
// were. A lock node tells the transaction in which its last request ended, and
// not when that was: it was before any later one.
type gcRecord struct {
	Format int      `json:"format"`
	Marks  []gcMark `json:"marks"` // oldest first
}

type gcMark struct {
	Zxid int64 `json:"zxid"`
	At   int64 `json:"at"` // server's time, milliseconds
}

// thin keeps of the marks the oldest of each age: those of 2 to 4 seconds, of 4
// to 8, and so on. So there is always one that is about as old as need be.
func (r gcRecord) thin(now int64) gcRecord {
	slices.SortFunc(r.Marks, func(a, b gcMark) int { return int(min(max(a.At-b.At, -1), 1)) })
	seen := map[int]bool{}
	r.Marks = slices.DeleteFunc(r.Marks, func(m gcMark) bool {
		age := bits.Len64(uint64(max(now-m.At, 0) / 1000))
		had := seen[age]
		seen[age] = true
		return had
	})
	return r
}

// begin learns the servers' clock, and from when what is known to be old is.
func (k *collector) begin(ctx context.Context, s *zkclient.Session) error {
	path := k.c.Root() + "/gc"
	for {
		data, stat, err := s.Get(ctx, path)
		switch {
		case errors.Is(err, zkclient.ErrNoNode) && k.o.DryRun:
			return k.beginAt(k.c.Now().UnixMilli(), gcRecord{})
		case errors.Is(err, zkclient.ErrNoNode):
			// A root without locks needs no mark, nor a root that is not there.
			if _, err := s.Stat(ctx, k.c.Root()+"/locks"); errors.Is(err, zkclient.ErrNoNode) {
				return k.beginAt(k.c.Now().UnixMilli(), gcRecord{})
			} else if err != nil {
				return err
			}
			if err := s.Ensure(ctx, path); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		var record gcRecord
		if json.Unmarshal(data, &record) != nil || record.Format != znode.RecordFormat {
			record = gcRecord{} // nothing is known
		}
		record.Format = znode.RecordFormat
		record.Marks = append(record.Marks, gcMark{stat.Mzxid, stat.Mtime})
		if k.o.DryRun {
			now, err := k.c.ServerNow(ctx, s)
			if errors.Is(err, zkclient.ErrNoAuth) {
				now, err = k.c.Now().UnixMilli(), nil // an onlooker that may not write: nearly right
			}
			if err != nil {
				return err
			}
			return k.beginAt(now, record)
		}
		out, err := json.Marshal(record.thin(stat.Mtime))
		if err != nil {
			return err
		}
		written, err := s.Set(ctx, path, out, stat.Version)
		if errors.Is(err, zkclient.ErrBadVersion) {
			continue // another collector
		} else if err != nil {
			return err
		}
		record.Marks = append(record.Marks, gcMark{written.Mzxid, written.Mtime})
		return k.beginAt(written.Mtime, record)
	}
}

func (k *collector) beginAt(now int64, known gcRecord) error {
	k.mu.Lock()
	k.collection.At = time.UnixMilli(now)
	k.mu.Unlock()
	k.limit, k.newest = now-k.o.Older.Milliseconds(), 0
	for _, m := range known.Marks {
		k.date(m.Zxid, m.At)
	}
	return nil
}
