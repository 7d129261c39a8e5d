package zkclient

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Get is Session.Get in one session after the other.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := Promptly(ctx, c, func() (r NodeData, err error) {
		err = c.ReadingFor(ctx, false, func(s *Session) error {
			r.Data, r.Stat, err = s.Get(ctx, path)
			return err
		})
		return r, err
	}, nil)
	return r.Data, r.Stat, err
}

// Ensure makes a node and those above it, as far as they are not there.
func (c *Client) Ensure(ctx context.Context, path string) error {
	_, err := Promptly(ctx, c, func() (struct{}, error) {
		return struct{}{}, c.Reading(ctx, func(s *Session) error { return s.Ensure(ctx, path) })
	}, nil)
	return err
}

// Create is Session.Create in one session. It is not repeated when its outcome
// is unknown: ErrAmbiguous.
func (c *Client) Create(ctx context.Context, path string, data []byte, flags int32) (string, error) {
	return Promptly(ctx, c, func() (string, error) {
		s, err := c.Usable(ctx)
		if err != nil {
			return "", err
		}
		if err := c.Introduce(ctx, s); err != nil {
			return "", err
		}
		return s.Create(ctx, path, data, flags)
	}, nil)
}

// Multi is Session.Multi in one session. It is not repeated when its outcome is
// unknown: ErrAmbiguous.
func (c *Client) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return Promptly(ctx, c, func() ([]zk.MultiResponse, error) {
		s, err := c.Usable(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.Introduce(ctx, s); err != nil {
			return nil, err
		}
		r, _, err := s.Multi(ctx, ops...)
		return r, err
	}, nil)
}

// Reading repeats an idempotent op until it has an answer.
func (c *Client) Reading(ctx context.Context, op func(*Session) error) error {
	return c.ReadingFor(ctx, true, op)
}

// ReadingFor is reading; who makes no nodes is not kept from looking.
func (c *Client) ReadingFor(ctx context.Context, makes bool, op func(*Session) error) error {
	for {
		s, err := c.UsableFor(ctx, makes)
		if err != nil {
			return err
		}
		err = op(s)
		if !errors.Is(err, ErrAmbiguous) && !errors.Is(err, ErrSessionOver) {
			return err
		}
	}
}

// Inspecting runs a read that the breaker may refuse, until it has an answer.
func (c *Client) Inspecting(ctx context.Context, op func(*Session) error) error {
	s, err := c.admitFor(ctx, false)
	for err == nil {
		err = op(s)
		if !errors.Is(err, ErrAmbiguous) && !errors.Is(err, ErrSessionOver) {
			return err
		}
		s, err = c.UsableFor(ctx, false)
	}
	return err
}
