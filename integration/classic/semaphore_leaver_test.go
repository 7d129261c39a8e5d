package classic

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// The caller leaves right after each request in turn was sent; the connection
// breaks in the same moment, or does not.
func TestCallerThatLeavesAtAnyStepLeavesNothing(t *testing.T) {
	t.Parallel()
	courses := map[string]func(h *house, c *recipes.Client) func(context.Context) error{
		"permits": func(h *house, c *recipes.Client) func(context.Context) error {
			s := h.semaphore(c, recipes.SemaphoreOptions{Limit: 3, LimitPath: "/app/how-many"})
			return func(ctx context.Context) error {
				held, err := s.AcquireN(ctx, 2)
				if err != nil {
					return err
				}
				return s.Release(context.WithoutCancel(ctx), held...)
			}
		},
		"permits as Kazoo's": func(h *house, c *recipes.Client) func(context.Context) error {
			s := h.semaphore(c, recipes.SemaphoreOptions{Limit: 3, Naming: recipes.NamingKazoo})
			return func(ctx context.Context) error {
				held, err := s.TryAcquire(ctx, 2)
				if err != nil {
					return err
				}
				return s.Release(context.WithoutCancel(ctx), held...)
			}
		},
		"term": func(h *house, c *recipes.Client) func(context.Context) error {
			e, err := c.Election(office, "first", recipes.ElectionOptions{})
			require.NoError(h.t, err)
			return func(ctx context.Context) error {
				term, err := e.Campaign(ctx)
				if err != nil {
					return err
				}
				return term.Resign(context.WithoutCancel(ctx))
			}
		},
		"terms": func(h *house, c *recipes.Client) func(context.Context) error {
			e, err := c.Election(office, "first", recipes.ElectionOptions{Policy: recipes.PolicyStrict})
			require.NoError(h.t, err)
			return func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				err := e.Run(ctx, func(context.Context, *recipes.Term) error { cancel(); return nil })
				if errors.Is(err, context.Canceled) {
					return nil
				}
				return err
			}
		},
		"double barrier": func(h *house, c *recipes.Client) func(context.Context) error {
			b := h.doubleBarrier(c, 1)
			return func(ctx context.Context) error {
				m, err := b.Enter(ctx)
				if err != nil {
					return err
				}
				return m.Leave(context.WithoutCancel(ctx))
			}
		},
	}
	for name, course := range courses {
		for _, breaks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, connection breaks: %t", name, breaks), func(t *testing.T) {
				t.Parallel()
				h := shareHouse(t)
				w := &wire{}
				c := h.client(through(w), timeout(30*time.Second))
				require.NoError(t, c.Ready(t.Context()))
				run := course(h, c)
				for step, left := 0, true; left; step++ {
					ctx, cancel := context.WithCancel(t.Context())
					w.behind(opAny, step, func() {
						cancel()
						if breaks {
							w.cut()
						}
					})
					if err := run(ctx); err != nil {
						require.ErrorIs(t, err, context.Canceled, "left at step %d", step)
					}
					left = w.unset()
					cancel()
					h.nobodyThere()
					require.NoError(t, c.Ready(t.Context()))
				}
			})
		}
	}
}
