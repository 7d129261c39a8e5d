package ticks

import (
	"context"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// tickStore is what a ledger needs of a *zkclient.Client.
type tickStore interface {
	Create(ctx context.Context, path string, data []byte, flags int32) (string, error)
	Ensure(ctx context.Context, path string) error
	Get(ctx context.Context, path string) ([]byte, *zkclient.Stat, error)
	List(ctx context.Context, path string) ([]string, *zkclient.Stat, error)
	Multi(ctx context.Context, ops ...any) ([]zkclient.MultiResponse, error)
	Unavailable() *zkclient.UnavailableError

	// ServerTime is what is known of the leader's clock, if anything is;
	// AwaitServerTime waits until something is.
	ServerTime() (zkclient.ServerTime, bool)
	AwaitServerTime(ctx context.Context) error

	// Await calls see with the node as it is, and again each time that it, or
	// with children its list of children, may have changed, until see reports
	// true or an error.
	Await(ctx context.Context, path string, children bool, see func(zkclient.NodeSight) (bool, error)) error
}

var _ tickStore = (*zkclient.Client)(nil)
