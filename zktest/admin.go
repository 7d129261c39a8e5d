package zktest

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// Create makes a persistent node that every client may use, and the nodes above
// it that are missing, as an administrator would beside the clients. It
// returns a Code, such as NodeExists.
func (s *Server) Create(path string, data []byte) error {
	if !tree.ValidPath(path) {
		return BadArguments
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range path {
		if c != '/' || i == 0 {
			continue
		}
		if _, code := s.leader.tree.Exists(path[:i]); code == zkwire.NoNode {
			if err := s.administer(&zkwire.Request{
				Op: zkwire.OpCreate, Path: path[:i], Data: []byte{}, ACL: tree.OpenACL, TTL: -1,
			}); err != nil {
				return err
			}
		}
	}
	return s.administer(&zkwire.Request{
		Op: zkwire.OpCreate, Path: path, Data: slices.Clone(data), ACL: tree.OpenACL, TTL: -1,
	})
}

// Set replaces the data of a node, whatever its version and its access control
// list. It returns a Code, such as NoNode.
func (s *Server) Set(path string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.administer(&zkwire.Request{Op: zkwire.OpSetData, Path: path, Data: slices.Clone(data), Version: -1})
}

// Delete deletes a node and all below it, each in a transaction of its own,
// whatever their ACL. It returns a Code, such as NoNode.
func (s *Server) Delete(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == "/" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return BadArguments // the server's own
	}
	var paths []string
	s.leader.tree.Walk(path, func(path string, _ []byte, _ []zkwire.ACL, _ zkwire.Stat) { paths = append(paths, path) })
	if len(paths) == 0 {
		return NoNode
	}
	for _, path := range slices.Backward(paths) {
		if err := s.administer(&zkwire.Request{Op: zkwire.OpDelete, Path: path, Version: -1}); err != nil {
			return err
		}
	}
	return nil
}

// Get returns a node. It returns a Code, such as NoNode.
func (s *Server) Get(path string) (Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Node
	s.leader.tree.Walk(path, func(at string, data []byte, _ []zkwire.ACL, stat zkwire.Stat) {
		if len(found) == 0 {
			found = append(found, Node{Path: at, Data: slices.Clone(data), Stat: publicStat(stat)})
		}
	})
	if len(found) == 0 {
		return Node{}, NoNode
	}
	return found[0], nil
}

// administer executes a request without a connection, and past all
// access control.
func (s *Server) administer(r *zkwire.Request) error {
	if s.closed {
		return errClosed
	}
	if answer := s.write(r, tree.Caller{Super: true}); answer.code != zkwire.OK {
		return Code(answer.code)
	}
	return nil
}
