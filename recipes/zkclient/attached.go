package zkclient

import (
	"reflect"
	"sync"
)

// attachments keeps what others keep with a client or with a session: one value of each type. A client knows
// nothing of locks, groups or ledgers, and what these remember lives as long as it does.
type attachments struct {
	mu sync.Mutex
	m  sync.Map // by type
}

// An attachable keeps values of other rooms: a client, or a session.
type attachable interface{ keeps() *attachments }

func (c *Client) keeps() *attachments  { return &c.attached }
func (s *Session) keeps() *attachments { return &s.attached }

// Attached returns the T of a client or of a session. The first call makes it.
func Attached[T any](k attachable, create func() *T) *T {
	to := k.keeps()
	key := reflect.TypeFor[T]()
	if v, ok := to.m.Load(key); ok {
		return v.(*T)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if v, ok := to.m.Load(key); ok {
		return v.(*T)
	}
	v := create()
	to.m.Store(key, v)
	return v
}

// A sessionCache is attached to a client and says nothing any more when a new session begins.
type sessionCache interface{ SessionBegins() }

// SessionBegins notifies what is attached to a client that a new session
// begins.
func (a *attachments) SessionBegins() {
	a.m.Range(func(_, v any) bool {
		if c, ok := v.(sessionCache); ok {
			c.SessionBegins()
		}
		return true
	})
}
