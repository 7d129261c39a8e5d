package zkclient

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// Scratch returns cfg with a new root of its own below that of cfg, which no
// other client uses and which never existed: for measurements and trials.
// Discard removes it.
func (cfg Config) Scratch() (Config, error) {
	if err := cfg.complete(); err != nil {
		return cfg, err
	}
	cfg.Root += "/" + scratchName + znode.NewGUID()
	return cfg, nil
}

const scratchName = "scratch-"

// IsScratch reports whether a node below the root is the root of a Config.Scratch.
func IsScratch(name string) bool {
	guid, ok := strings.CutPrefix(name, scratchName)
	return ok && len(guid) == znode.GUIDLength
}

// Discard removes the client's root and all that is below it, if the root comes
// from Config.Scratch; else it returns a *RequestError and removes nothing. No
// client may use that root any more: a lock whose node is removed could be
// granted twice.
func (c *Client) Discard(ctx context.Context) error {
	if !IsScratch(path.Base(c.root)) {
		return &RequestError{
			Field: "root", Reason: c.root + " is not one of Config.Scratch; only such a root can be discarded",
		}
	}
	_, err := Promptly(ctx, c, func() (struct{}, error) {
		return struct{}{}, c.Reading(ctx, func(s *Session) error { return s.deleteAll(ctx, c.root) })
	}, nil)
	if err != nil {
		return fmt.Errorf("%s is not removed: %w", c.root, err)
	}
	return nil
}

// deleteAll deletes a node and all below it, children first.
func (s *Session) deleteAll(ctx context.Context, node string) error {
	for {
		names, _, err := s.List(ctx, node)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		} else if err != nil {
			return err
		}
		for _, name := range names {
			if err := s.deleteAll(ctx, node+"/"+name); err != nil {
				return err
			}
		}
		switch err := s.Delete(ctx, node, -1); {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return nil
		case !errors.Is(err, zk.ErrNotEmpty): // else a client has come back
			return err
		}
	}
}
