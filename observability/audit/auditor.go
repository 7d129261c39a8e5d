package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/log"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A Trail is where records are appended and read again: *opstore.AuditLog.
type Trail interface {
	// Append puts an entry on record, once, and tries on until ctx ends. An
	// *lock.UnavailableError alone says that nothing was sent.
	Append(ctx context.Context, entry opstore.AuditEntry) (opstore.AuditRecord, error)

	// Follow calls f with every record from a number on.
	Follow(ctx context.Context, from int64, f func(opstore.AuditRecord) error) error
}

var _ Trail = (*opstore.AuditLog)(nil)

// Config says where records go.
type Config struct {
	// File, when set, gets the whole trail of all processes, as lines of JSON:
	// see Run. It is created when missing, for this user alone, and may be
	// rotated by renaming it.
	//
	// It is also where a bypass is put on record while ZooKeeper does not
	// answer, marked as unchained. Without a File it is refused then.
	File string

	// Logger gets what this process puts on record, as a warning "audit" each,
	// and whatever goes wrong. Defaults to discarding.
	Logger *slog.Logger

	// Records, when set, gets what this process puts on record as OpenTelemetry
	// log records named "lockkeeper.audit".
	Records log.Logger

	// Timeout is how long an announcement may take to be put on record: what it
	// announces is late by that much, and not done when it is over. Defaults to
	// 5s.
	Timeout time.Duration

	// Trail is the audit trail. It is required.
	Trail Trail
}

// An Auditor puts on record what this process does to holders of locks, and
// what is done to its own. It is safe for concurrent use.
//
// What is on record:
//
// As an Auditor (the announcement, phase intent): a takeover, and what an
// override does, as lockguard, emergency or a command tells it.
//
// As an Observer (the outcome):
//
//	PreemptSent       preempt    by the preemptor
//	PreemptRequested  preempted  by the victim
//	TakenOver         takeover   the outcome of what was announced: done
//	Acquired          takeover   announced, and not needed: the holders had gone; failed
//	                  override.act  of an override that takes a lock: it has it; done
//	NotAcquired       takeover, override.act  announced, and not done; failed
//	Lost              lost       taken, overridden, broken, or deleted by hand
//
// PreemptSent and PreemptRequested of one holder have the same Act, named after
// its token, and so has what became of it (Lost). An announcement and its outcome
// have the same Act: that of a request is the ID of its events. An announcement
// may come again with the same Act, when the first try has failed.
//
// Not on record are: what a request does to itself (Waiting, Queued, Delayed, Displaced,
// Requeued, Acquired, Extended, Downgraded, Released, NotAcquired without an
// announcement), what follows from a record by itself (PreemptionWithdrawn: the
// preemptor has left, and the holder releases all the same; CleanupStarted, CleanupDone,
// CleanupOverrun; Skipped by a pause; Stuck), losses without an actor (Lost with its
// session, AtRisk) or by the same work (superseded), and what another component has
// recorded already: an override's effect is announced once for all requests of an owner,
// before it is applied (Overridden, Frozen, Thawed, Bypassed); the approval store
// records approvals (ApprovalPending, ApprovalDecided). Logs and metrics have all of
// that.
type Auditor struct {
	cfg   Config
	file  *file // nil: none
	spool *spool
	life  context.Context // ends with Close
	die   context.CancelFunc

	mu        sync.Mutex
	announced announcements
	overrides map[string]string // their IDs, by the request that they have changed
}

var _ lockguard.Auditor = (*Auditor)(nil)

// New returns an Auditor, which must be closed. The error says what is wrong
// with cfg, and wraps that of the file system for a File that cannot be written.
func New(cfg Config) (*Auditor, error) {
	if cfg.Trail == nil {
		return nil, errors.New("audit: the trail is nil; give that of the client, see lock.Client.AuditLog")
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("audit: the timeout %s is negative; write for example 5s", cfg.Timeout)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Auditor{cfg: cfg, overrides: make(map[string]string)}
	if cfg.File != "" {
		f, err := openFile(cfg.File, cfg.Logger)
		if err != nil {
			return nil, fmt.Errorf("audit: the file for records cannot be used: %w", err)
		}
		a.file = f
	}
	a.life, a.die = context.WithCancel(context.Background())
	a.spool = newSpool(a.life, a.append, a.lose)
	return a, nil
}

// Run ships the trail to the File, from where the file ends on, or from the
// oldest record that is kept; it follows what all processes append, until ctx
// ends. Of several processes with one File one writes, the others stand by. What
// cannot be shipped because it was removed or tampered with is noted in the
// file, and logged. Without a File it does nothing. Errors of the file are logged,
// and it is tried again.
func (a *Auditor) Run(ctx context.Context) {
	if a.file == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.life, cancel)()
	a.file.ship(ctx, a.cfg.Trail)
}

// Close waits until all outcomes are on record, until ctx ends; those that are
// not by then are logged and lost. The error says how many.
func (a *Auditor) Close(ctx context.Context) error {
	err := a.spool.close(ctx)
	a.die()
	a.spool.wait()
	if a.file != nil {
		err = errors.Join(err, a.file.close())
	}
	return err
}

// Audit puts an entry on record. It returns nil when it is, and an error when it
// may not be: then what it announces must not be done, and an outcome says that
// it was not.
//
// An override that lets work run without its lock is for when ZooKeeper has
// failed, too: its announcement is on record when it is in the File. It is
// appended to the trail when ZooKeeper answers again.
func (a *Auditor) Audit(ctx context.Context, entry opstore.AuditEntry) error {
	if entry.Act == "" {
		entry.Act = newAct() // no later step needs this act again
	} else {
		a.note(entry)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.cfg.Timeout, fmt.Errorf("no answer for %s", a.cfg.Timeout))
	defer cancel()
	err := a.append(ctx, entry)
	if err == nil {
		return nil
	}
	if isBypass(entry) && a.file != nil {
		return a.auditUnchained(entry, err)
	}
	if entry.Phase == opstore.AuditIntent {
		a.forget(entry.Act)
	}
	if _, notSent := errors.AsType[*lock.UnavailableError](err); !notSent && ctx.Err() != nil &&
		entry.Phase == opstore.AuditIntent {
		a.spool.put(outcome(entry, err)) // perhaps it is on record all the same
	}
	return err
}

// isBypass reports whether an entry announces that work runs without its lock.
func isBypass(entry opstore.AuditEntry) bool {
	return entry.Action == opstore.AuditOverrideAct && entry.Phase == opstore.AuditIntent &&
		entry.After["bypass"] == "true"
}

// auditUnchained puts an entry on record in the file, because ZooKeeper failed.
func (a *Auditor) auditUnchained(entry opstore.AuditEntry, cause error) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	record := opstore.AuditRecord{
		At: time.Now().UTC().Truncate(time.Millisecond), ID: newAct(), Host: host, PID: os.Getpid(), AuditEntry: entry,
	}
	if err := a.file.note(unchainedLine{true, record}); err != nil {
		return fmt.Errorf("neither in ZooKeeper nor in a file: %w; %w", cause, err)
	}
	a.tell(record, "unchained", true, "error", cause)
	a.spool.put(entry)
	return nil
}

// append puts an entry on record, and tells that it is.
func (a *Auditor) append(ctx context.Context, entry opstore.AuditEntry) error {
	record, err := a.cfg.Trail.Append(ctx, entry)
	if err == nil {
		a.tell(record)
	}
	return err
}

// lose says what will not be on record, and all of it: somebody may copy it.
func (a *Auditor) lose(entry opstore.AuditEntry, err error) {
	a.cfg.Logger.Error("an audit record is lost",
		append(describe(opstore.AuditRecord{AuditEntry: entry}), "cause", err)...)
}
