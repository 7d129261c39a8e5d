package classic

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Naming is how the nodes of a classic recipe are called. Nodes of either kind
// are understood; what matters is whether the others understand ours.
type Naming uint8

const (
	// NamingCurator names nodes as Apache Curator does, for example
	// _c_<uuid>-lock-0000000001, in directories that ZooKeeper removes when they
	// are unused (containers).
	NamingCurator Naming = iota

	// NamingKazoo names nodes as Kazoo does, for example
	// <uuid>__lock__0000000001, in directories that stay: a Kazoo lock makes
	// sure of its directory once, and fails if that is gone later.
	NamingKazoo
)

// A line is a directory in ZooKeeper in which each participant has a node with
// a sequence number: first come, first served. Others may stand in it that use
// Curator, Kazoo or go-zookeeper.
type line struct {
	c      *zkclient.Client
	label  string // the path as its user knows it
	path   string // chroot included
	naming Naming
	acl    func(path string) []zkclient.ACL // nil: the client's
	marks  []mark                           // of those who count; all else in the directory is ignored
}

// A mark is the part of a participant's name, right before the sequence number,
// that says what it is.
type mark struct {
	text   string
	shared bool // stands beside others of its kind
}

// The marks of those who stand in line for a lock.
var (
	curatorLock  = mark{text: "lock-"}
	curatorWrite = mark{text: "__WRIT__"}
	curatorRead  = mark{text: "__READ__", shared: true}
	kazooLock    = mark{text: "__lock__"} // also its write lock
	kazooRead    = mark{text: "__rlock__", shared: true}

	lockMarks = []mark{curatorLock, curatorWrite, curatorRead, kazooLock, kazooRead}
)

// newLine returns the line in the directory at where, an absolute path below
// the chroot. It returns a *RequestError for a path that can never be.
func newLine(
	c *zkclient.Client, where string, naming Naming, acl func(string) []zkclient.ACL, marks []mark,
) (*line, error) {
	full, err := absolute(c, where)
	if naming > NamingKazoo {
		err = errors.Join(err, &zkclient.RequestError{
			Field: "naming", Reason: fmt.Sprintf("%d is not known; write NamingCurator or NamingKazoo", naming),
		})
	}
	if err != nil {
		return nil, err
	}
	return &line{c: c, label: where, path: full, naming: naming, acl: acl, marks: marks}, nil
}

// A ticket is a participant as its node's name tells.
type ticket struct {
	name     string
	number   string // the sequence number as it stands in the name
	sequence int32
	mark     mark
}

// parseTicket reads a participant's name: what protects it against lost
// replies, the mark, and the sequence number of at least ten places. It
// reports false for a foreign one.
func parseTicket(name string, marks []mark) (ticket, bool) {
	for _, m := range marks {
		at := strings.LastIndex(name, m.text)
		if at < 0 || strings.HasSuffix(m.text, "-") && at > 0 && name[at-1] != '-' {
			continue
		}
		digits := name[at+len(m.text):]
		n, err := strconv.ParseInt(digits, 10, 32) // negative after a wrap
		if err != nil || len(digits) < 10 || digits[0] == '+' {
			continue
		}
		return ticket{name: name, number: digits, sequence: int32(n), mark: m}, true
	}
	return ticket{}, false
}

// order returns the participants in the order in which they came, foreign
// nodes left out. Sequence numbers wrap around: the difference decides. Where
// they are equal, a writer has made itself a reader, and comes before that.
func (l *line) order(names []string) []ticket {
	tickets := make([]ticket, 0, len(names))
	for _, name := range names {
		if t, ok := parseTicket(name, l.marks); ok {
			tickets = append(tickets, t)
		}
	}
	slices.SortFunc(tickets, func(a, b ticket) int {
		switch {
		case a.sequence != b.sequence:
			return znode.CompareSequence(a.sequence, b.sequence)
		case a.mark.shared != b.mark.shared && b.mark.shared:
			return -1
		case a.mark.shared != b.mark.shared:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	znode.Unwrap(tickets, func(t ticket) int32 { return t.sequence })
	return tickets
}

// queue lists the participants in line; none without a directory.
func (l *line) queue(ctx context.Context, s *zkclient.Session) ([]ticket, error) {
	names, _, err := s.List(ctx, l.path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil
	}
	return l.order(names), err
}

// prefix is the name of a participant's node up to its sequence number.
func (l *line) prefix(guid string, m mark) string {
	if l.naming == NamingKazoo {
		return strings.ReplaceAll(guid, "-", "") + m.text
	}
	return "_c_" + guid + "-" + m.text
}

// owns reports whether a name is that of the attempt with this guid.
func (l *line) owns(name, guid string) bool {
	return strings.HasPrefix(name, l.prefix(guid, mark{}))
}

// newUUID names one attempt, as others do.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// access returns the ACL of a node to be created.
func (l *line) access(node string) []zkclient.ACLEntry {
	if l.acl == nil {
		return l.c.ACL()
	}
	entries := l.acl(strings.TrimPrefix(node, l.c.Config().Chroot))
	if len(entries) == 0 {
		return l.c.ACL()
	}
	list := make([]zkclient.ACLEntry, 0, len(entries))
	for _, e := range entries {
		list = append(list, zkclient.ACLEntry{Perms: int32(e.Permissions), Scheme: e.Scheme, ID: e.ID})
	}
	return list
}

// ensure creates the directory, and whatever is missing above it, as containers
// or as nodes that stay.
func (l *line) ensure(ctx context.Context, s *zkclient.Session, container bool) error {
	return l.ensureNode(ctx, s, l.path, container)
}

func (l *line) ensureNode(ctx context.Context, s *zkclient.Session, node string, container bool) error {
	if len(node) <= len(l.c.Config().Chroot) {
		return s.Ensure(ctx, l.c.Config().Chroot)
	}
	for {
		err := l.createDirectory(ctx, s, node, container)
		if !errors.Is(err, zkclient.ErrNoNode) || path.Dir(node) == "/" {
			if errors.Is(err, zkclient.ErrNodeExists) {
				return nil
			}
			return err
		}
		if err := l.ensureNode(ctx, s, path.Dir(node), container); err != nil {
			return err
		}
	}
}

func (l *line) createDirectory(ctx context.Context, s *zkclient.Session, node string, container bool) error {
	if container {
		// In a transaction: go-zookeeper's CreateContainer races with the end of
		// the connection, and servers before 3.5 hang up on it. Of a transaction
		// such a server refuses the flag, and a newer one commits it, only that
		// go-zookeeper cannot read the answer.
		_, _, err := s.Multi(ctx, &zkclient.CreateRequest{Path: node, Acl: l.access(node), Flags: zkclient.FlagContainer})
		switch {
		case errors.Is(err, zkclient.ErrAPI):
			return nil
		case !errors.Is(err, zkclient.ErrBadArguments):
			return err
		}
	}
	_, err := s.CreateNamed(ctx, node, nil, 0, l.access(node))
	return err
}
