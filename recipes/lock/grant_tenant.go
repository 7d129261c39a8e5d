package lock

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A grantTenant is a grant as its session sees it.
type grantTenant Grant

var (
	_ zkclient.Evictable  = (*grantTenant)(nil)
	_ zkclient.Verifiable = (*grantTenant)(nil)
	_ zkclient.Reassured  = (*grantTenant)(nil)
)

func (t *grantTenant) Holding() string                     { return (*Grant)(t).holding() }
func (t *grantTenant) Overdue(now zkclient.Instant) bool   { return (*Grant)(t).overdue(now) }
func (t *grantTenant) Blind(now zkclient.Instant) bool     { return (*Grant)(t).blind(now) }
func (t *grantTenant) Blink()                              { (*Grant)(t).blink() }
func (t *grantTenant) VerifyDue(now zkclient.Instant) bool { return (*Grant)(t).verifyDue(now) }
func (t *grantTenant) Verify(ctx context.Context)          { (*Grant)(t).verify(ctx) }
func (t *grantTenant) AtRisk(left time.Duration)           { (*Grant)(t).atRisk(left) }
func (t *grantTenant) Safe()                               { (*Grant)(t).safe() }
func (t *grantTenant) SessionLost(cause error)             { (*Grant)(t).sessionLost(cause) }
