package ticks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// tickView is a job's node as one look shows it.
type tickView struct {
	record  tickRecord
	stat    *zkclient.Stat
	markers []string // ids of runs whose marker stands, in ascending order
}

// alive reports whether the process of a run lives.
func (v *tickView) alive(run string) bool {
	_, found := slices.BinarySearch(v.markers, run)
	return found
}

// living returns how many runs go on whose process lives, and the oldest.
func (v *tickView) living() (n int, oldest *runNote) {
	for i := range v.record.Runs {
		if v.alive(v.record.Runs[i].ID) {
			if n++; n == 1 {
				oldest = &v.record.Runs[i]
			}
		}
	}
	return n, oldest
}

// bury records the runs whose process has died as interrupted, and returns them.
func (v *tickView) bury() (dead []Run) {
	rec := &v.record
	for i := 0; i < len(rec.Runs); {
		if v.alive(rec.Runs[i].ID) {
			i++
			continue
		}
		dead = append(dead, rec.publicRun(&rec.Runs[i]))
		rec.interrupt(i)
	}
	return dead
}

// tickWrite says what to write beside the record as it was changed.
type tickWrite struct {
	set           bool // write at all
	createMarker  string
	deleteMarkers []string
	deleteRequest string // the path of a request
}

// unmark takes away the marker of a run, if it stands.
func (w *tickWrite) unmark(v *tickView, run string) {
	if v.alive(run) {
		w.deleteMarkers = append(w.deleteMarkers, run)
	}
}

// update reads, lets plan change the record, and writes it under the version
// that was read, until that works or plan has nothing to write. It returns the
// record as it then is.
func (l *Ledger) update(ctx context.Context, job string, plan func(*tickView) tickWrite) (*tickRecord, error) {
	return l.updateFrom(ctx, job, nil, nil, plan)
}

// updateFrom is update that begins with what is remembered, if v is not nil. If
// enough, which may be nil, reports that the record alone says enough, plan is
// not called and the markers of live runs are not read.
func (l *Ledger) updateFrom(
	ctx context.Context, job string, v *tickView, enough func(*tickRecord) bool, plan func(*tickView) tickWrite,
) (rec *tickRecord, err error) {
	path, err := l.path(job)
	if err != nil {
		return nil, err
	}
	lost := false // the reply to something that may have been executed
	for try := 0; ; try++ {
		if err := zkclient.PauseBefore(ctx, try); err != nil {
			return nil, err
		}
		remembered := v != nil
		if !remembered {
			v, err = l.read(ctx, path)
			if errors.Is(err, zkclient.ErrNoNode) {
				if err := l.found(ctx, path, job); err != nil {
					return nil, err
				}
				continue
			}
			if err != nil {
				return nil, err
			}
			if enough != nil && !lost && enough(&v.record) {
				l.saw(job, &v.record, v.stat.Version)
				return &v.record, nil
			}
			if len(v.record.Runs) > 0 { // if one ends meanwhile, the write will tell
				if _, err := l.lookWhoLives(ctx, path, v); err != nil {
					return nil, err
				}
			}
		}
		write := plan(v)
		if !write.set {
			if remembered { // it may have changed
				v = nil
				continue
			}
			l.saw(job, &v.record, v.stat.Version)
			return &v.record, nil
		}
		data := v.record.encode()
		replies, err := l.store.Multi(ctx, l.transaction(path, data, v.stat.Version, write)...)
		switch {
		case err == nil:
			stat := replies[0].Stat
			v.record.stamp(stat.Mtime)
			l.wrote(job, &v.record, data, stat)
			return &v.record, nil
		case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode),
			errors.Is(err, zkclient.ErrNodeExists):
			// Another process was faster, or a marker has just gone: look again.
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			lost = true // the next look tells
		default:
			return nil, err
		}
		l.forget(job)
		v = nil
	}
}

func (l *Ledger) transaction(path string, data []byte, version int32, w tickWrite) []any {
	ops := []any{&zkclient.SetDataRequest{Path: path, Data: data, Version: version}}
	for _, run := range w.deleteMarkers {
		ops = append(ops, &zkclient.DeleteRequest{Path: markerPath(path, run), Version: -1})
	}
	if w.createMarker != "" {
		ops = append(ops, &zkclient.CreateRequest{
			Path: markerPath(path, w.createMarker), Data: znode.Encode(l.self), Acl: l.markerACL(),
			Flags: zkclient.FlagEphemeral,
		})
	}
	if w.deleteRequest != "" {
		ops = append(ops, &zkclient.DeleteRequest{Path: w.deleteRequest, Version: -1})
	}
	return ops
}

// look reads the record, then which of its runs live. A marker is made and
// removed together with a change of the record, and never comes back: if it is
// gone though the record still names it, its session has ended. That holds for
// one moment: between the two reads a run may end.
func (l *Ledger) look(ctx context.Context, path string) (*tickView, error) {
	for {
		v, err := l.read(ctx, path)
		if err != nil || len(v.record.Runs) == 0 {
			return v, err
		}
		version, err := l.lookWhoLives(ctx, path, v)
		if err != nil || version == v.stat.Version {
			return v, err
		}
	}
}

func (l *Ledger) read(ctx context.Context, path string) (*tickView, error) {
	data, stat, err := l.store.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	rec, err := decodeTick(data, stat)
	return &tickView{record: rec, stat: stat}, znode.InNode(err, path)
}

// lookWhoLives adds to a view which runs live, and returns the version that the
// record has by then.
func (l *Ledger) lookWhoLives(ctx context.Context, path string, v *tickView) (version int32, err error) {
	names, stat, err := l.store.List(ctx, path)
	if err != nil {
		return 0, err
	}
	v.markers = markers(names)
	return stat.Version, nil
}

// viewOf is what a sight of a job's node and its children shows.
func viewOf(s zkclient.NodeSight) (*tickView, error) {
	rec, err := decodeTick(s.Data, s.Stat)
	return &tickView{record: rec, stat: s.Stat, markers: markers(s.Names)}, err
}

// found creates the node of a job that was never heard of.
func (l *Ledger) found(ctx context.Context, path, job string) error {
	if err := l.store.Ensure(ctx, l.root); err != nil {
		return err
	}
	rec := tickRecord{Job: job}
	_, err := l.store.Create(ctx, path, rec.encode(), 0)
	if errors.Is(err, zkclient.ErrNodeExists) || errors.Is(err, zkclient.ErrAmbiguous) ||
		errors.Is(err, zkclient.ErrSessionOver) {
		return nil
	}
	return err
}

// explain adds what is known of ZooKeeper to the error of a call whose context
// has ended before the answer came.
func (l *Ledger) explain(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", err, l.store.Unavailable())
}

func (l *Ledger) path(job string) (string, error) {
	name, err := znode.EscapeScope(job)
	if bad, ok := errors.AsType[*zkclient.RequestError](err); ok {
		return "", &zkclient.RequestError{Field: "job", Reason: bad.Reason}
	}
	return l.root + "/" + name, err
}

// MarkerPrefix is how the name of a node begins that says that the process of a run lives.
const MarkerPrefix = "run-"

func markerPath(path, run string) string { return path + "/" + MarkerPrefix + run }

// markers returns the ids of the runs that have one, in ascending order.
func markers(names []string) (runs []string) {
	for _, name := range names {
		if run, ok := strings.CutPrefix(name, MarkerPrefix); ok {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return runs
}

// --- runs of this ledger ------------------------------------------------------

// openTick is a run that this ledger has claimed, or is about to.
type openTick struct {
	ending bool // its end has been sent, perhaps in vain
}

// mine reports whether a run was claimed by this ledger.
func (l *Ledger) mine(r *tickRecord, n *runNote) bool {
	return r.ownerOf(n).Ledger == l.self.Ledger
}

// settle puts right what calls of this ledger that have failed left behind:
// runs that no process runs. One that adopt wants is taken out of the record;
// others are recorded as skipped, or wait again if they did before.
func (l *Ledger) settle(v *tickView, w *tickWrite, adopt func(*runNote) bool) (adopted bool) {
	rec := &v.record
	for i := 0; i < len(rec.Runs); {
		n := rec.Runs[i]
		if !l.mine(rec, &n) || l.isOpen(n.ID) {
			i++
			continue
		}
		w.set = true
		w.unmark(v, n.ID)
		rec.Runs = slices.Delete(rec.Runs, i, i+1)
		switch {
		case adopt(&n):
			adopted = true
		case n.Waited:
			rec.wait(n.Instant)
		default:
			n.Cancel = time.Time{}
			rec.end(endNote{runNote: n, Outcome: Skipped, Reason: ReasonUndecided}, 1)
		}
	}
	return adopted
}

func (l *Ledger) opened(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = &openTick{}
}

// reserve is opened for an id that is not: it reports whether that was so.
func (l *Ledger) reserve(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[id] != nil {
		return false
	}
	l.open[id] = &openTick{}
	return true
}

func (l *Ledger) close(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
}

func (l *Ledger) isOpen(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[id] != nil
}

func (l *Ledger) ending(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.open[id]; o != nil {
		o.ending = true
	}
}

func (l *Ledger) wasEnding(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.open[id]
	return o != nil && o.ending
}

// markerACL is the access control list of what marks a run.
func (l *Ledger) markerACL() []zkclient.ACLEntry {
	if l.acl == nil {
		return nil
	}
	return l.acl()
}
