package interleavings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An admin sees and changes the server past all clients.
type admin interface {
	expire(session int64, password []byte) error

	// create makes a persistent node; the one above it must be there.
	create(path string, data []byte) error
	set(path string, data []byte) error
	remove(path string) error

	// lock returns the lock node of a scope and its children, as of one moment;
	// no node when there is none yet.
	lock(root, scope string) (node *zktest.Node, children []zktest.Node)

	// contenders returns the requests for all locks below root.
	contenders(root string) []zktest.Node

	// watches returns what is watched below root.
	watches(root string) []string

	close()
}

// A contender's node and a lock's node, as docs/protocol.md describes them.
type (
	contenderData struct {
		Owner   string        `json:"owner"`
		Mode    priority.Mode `json:"mode"`
		Granted bool          `json:"granted"`
		Token   recipes.Token `json:"token"`
	}
	lockData struct {
		Holders []string `json:"holders"`
	}
)

// holds tells whether a node that is there is that of a holder: the lock node names it, or it has
// walked in, and its name says so.
func (g lockData) holds(n zktest.Node) bool {
	return slices.Contains(g.Holders, guid(n.Path)) || strings.Contains(n.Path, "-w-"+guid(n.Path))
}

func record(n zktest.Node) (r contenderData) {
	_ = json.Unmarshal(n.Data, &r) // a foreign node has no owner
	return r
}

// tokenOf returns the token that the node of a holder tells.
func tokenOf(n zktest.Node) recipes.Token {
	if r := record(n); r.Token != 0 {
		return r.Token
	}
	return recipes.Token(n.Stat.Mzxid)
}

// guid returns the guid in the path of a contender.
func guid(path string) string {
	parts := strings.Split(path[strings.LastIndexByte(path, '/')+1:], "-")
	if len(parts) < 4 {
		return ""
	}
	return parts[2]
}

// isLock reports whether path is that of a lock node, <root>/locks/<2 hex>/<scope>.
func isLock(root, path string) bool {
	rest, ok := strings.CutPrefix(path, root+"/locks/")
	return ok && strings.Count(rest, "/") == 1
}

// --- the embedded server ---------------------------------------------------------

type embedded struct{ *zktest.Server }

var _ admin = embedded{}

func (e embedded) expire(session int64, _ []byte) error {
	if !e.Expire(session) {
		return errors.New("there is no such session")
	}
	return nil
}

func (e embedded) create(path string, data []byte) error { return e.Create(path, data) }
func (e embedded) set(path string, data []byte) error    { return e.Set(path, data) }
func (e embedded) remove(path string) error              { return e.Delete(path) }
func (e embedded) close()                                {}

func (e embedded) lock(root, scope string) (node *zktest.Node, children []zktest.Node) {
	for _, n := range e.Tree(root) {
		switch {
		case isLock(root, n.Path) && strings.HasSuffix(n.Path, "/"+scope):
			node = &n
		case node != nil && strings.HasPrefix(n.Path, node.Path+"/"):
			children = append(children, n)
		}
	}
	return node, children
}

func (e embedded) contenders(root string) []zktest.Node {
	return slices.DeleteFunc(e.Tree(root), func(n zktest.Node) bool {
		return !isLock(root, n.Path[:strings.LastIndexByte(n.Path, '/')])
	})
}

func (e embedded) watches(root string) []string {
	var paths []string
	for _, w := range e.Watches() {
		if strings.HasPrefix(w.Path, root+"/") {
			paths = append(paths, w.Path+" by "+w.Name)
		}
	}
	return paths
}

// --- the real server -----------------------------------------------------------

// shell is an administrator's connection, past the proxy.
type shell struct {
	t      testing.TB
	server testbed.Server
	conn   *zk.Conn
}

var _ admin = (*shell)(nil)

func newShell(t testing.TB, server testbed.Server) *shell {
	t.Helper()
	return &shell{t, server, testbed.Shell(t, server)}
}

func (s *shell) expire(session int64, password []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return s.server.Expire(ctx, session, password)
}

func (s *shell) create(path string, data []byte) error {
	_, err := s.conn.Create(path, data, 0, zk.WorldACL(zk.PermAll))
	return err
}

func (s *shell) set(path string, data []byte) error {
	_, err := s.conn.Set(path, data, -1)
	return err
}

func (s *shell) remove(path string) error { return s.conn.Delete(path, -1) }
func (s *shell) close()                   {} // testbed.Shell does

// lock reads until nothing has changed meanwhile.
func (s *shell) lock(root, scope string) (*zktest.Node, []zktest.Node) {
	for {
		path := s.find(root, scope)
		if path == "" {
			return nil, nil
		}
		before, ok := s.get(path)
		if !ok {
			continue
		}
		children, whole := s.below(path)
		after, ok := s.get(path)
		if ok && whole && before.Stat.Version == after.Stat.Version && before.Stat.Pzxid == after.Stat.Pzxid {
			return &after, children
		}
	}
}

func (s *shell) find(root, scope string) string {
	for _, bucket := range s.children(root + "/locks") {
		path := root + "/locks/" + bucket + "/" + scope
		if _, ok := s.get(path); ok {
			return path
		}
	}
	return ""
}

// below returns the children; whole is false if one went meanwhile.
func (s *shell) below(path string) (nodes []zktest.Node, whole bool) {
	whole = true
	for _, name := range s.children(path) {
		n, ok := s.get(path + "/" + name)
		if whole = whole && ok; ok {
			nodes = append(nodes, n)
		}
	}
	return nodes, whole
}

func (s *shell) contenders(root string) []zktest.Node {
	var nodes []zktest.Node
	for _, bucket := range s.children(root + "/locks") {
		for _, scope := range s.children(root + "/locks/" + bucket) {
			list, _ := s.below(root + "/locks/" + bucket + "/" + scope)
			nodes = append(nodes, list...)
		}
	}
	return nodes
}

func (s *shell) watches(root string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), soon) // the test's own ends before its cleanup
	defer cancel()
	all, err := s.server.Watches(ctx)
	require.NoError(s.t, err)
	return slices.DeleteFunc(all, func(path string) bool { return !strings.HasPrefix(path, root+"/") })
}

func (s *shell) children(path string) []string {
	names, _, err := s.conn.Children(path)
	if !errors.Is(err, zk.ErrNoNode) {
		require.NoError(s.t, err)
	}
	slices.Sort(names)
	return names
}

func (s *shell) get(path string) (zktest.Node, bool) {
	data, stat, err := s.conn.Get(path)
	if errors.Is(err, zk.ErrNoNode) {
		return zktest.Node{}, false
	}
	require.NoError(s.t, err)
	return zktest.Node{Path: path, Data: data, Stat: zktest.Stat{
		Czxid: stat.Czxid, Mzxid: stat.Mzxid, Pzxid: stat.Pzxid,
		Ctime: time.UnixMilli(stat.Ctime), Mtime: time.UnixMilli(stat.Mtime),
		Version: stat.Version, Cversion: stat.Cversion, Aversion: stat.Aversion,
		EphemeralOwner: stat.EphemeralOwner, NumChildren: int(stat.NumChildren),
	}}, true
}

// --- readers, played by hand ------------------------------------------------------

// reads puts the node of a reader that holds into the scope "users", and returns
// its path. It holds once names has named it.
func (w *world) reads(level int, id string) (path string) {
	w.Helper()
	lock, children := w.admin.lock(w.root, users)
	require.NotNil(w, lock)
	path = fmt.Sprintf("%s/%010d-s-%s-%010d", lock.Path, math.MaxInt32-level, id, len(children))
	data := fmt.Sprintf(`{"format":1,"owner":"reader %c","priority":%d,"mode":"shared","lease_timeout_ms":3600000,"cleanup_timeout_ms":3600000,"granted":true}`, id[0], level)
	require.NoError(w, w.admin.create(path, []byte(data)))
	return path
}

// names writes the holders of the scope "users" into G.
func (w *world) names(holders ...string) {
	w.Helper()
	lock, _ := w.admin.lock(w.root, users)
	require.NotNil(w, lock)
	require.NoError(w, w.admin.set(lock.Path, []byte(`{"format":1,"holders":["`+strings.Join(holders, `","`)+`"]}`)))
}
