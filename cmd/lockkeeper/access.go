package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// tellAccess logs who else than the daemon and the operators may write what the
// daemon goes by. An open deployment, where every client may, is no news.
func tellAccess(ctx context.Context, client *lock.Client, logger *slog.Logger) {
	if client.Identity() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := client.CheckAccess(ctx)
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			if untrusted, ok := errors.AsType[*lock.UntrustedError](err); ok {
				logger.Warn("others have access", "node", untrusted.Node, "entry", untrusted.Entry, "problem", untrusted.Error())
			}
		}
	}
}
