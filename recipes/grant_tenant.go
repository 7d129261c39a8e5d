package recipes

import (
	"context"
	"time"
)

// A grantTenant is a grant as its session sees it.
type grantTenant Grant

var (
	_ evictable  = (*grantTenant)(nil)
	_ verifiable = (*grantTenant)(nil)
	_ reassured  = (*grantTenant)(nil)
)

func (t *grantTenant) holding() string            { return (*Grant)(t).holding() }
func (t *grantTenant) overdue(now instant) bool   { return (*Grant)(t).overdue(now) }
func (t *grantTenant) blind(now instant) bool     { return (*Grant)(t).blind(now) }
func (t *grantTenant) blink()                     { (*Grant)(t).blink() }
func (t *grantTenant) verifyDue(now instant) bool { return (*Grant)(t).verifyDue(now) }
func (t *grantTenant) verify(ctx context.Context) { (*Grant)(t).verify(ctx) }
func (t *grantTenant) atRisk(left time.Duration)  { (*Grant)(t).atRisk(left) }
func (t *grantTenant) safe()                      { (*Grant)(t).safe() }
func (t *grantTenant) sessionLost(cause error)    { (*Grant)(t).sessionLost(cause) }
