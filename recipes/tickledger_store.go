package recipes

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// tickStore is what a ledger needs of a *Client.
type tickStore interface {
	create(ctx context.Context, path string, data []byte, flags int32) (string, error)
	ensure(ctx context.Context, path string) error
	get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
	list(ctx context.Context, path string) ([]string, *zk.Stat, error)
	multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	unavailable() *UnavailableError

	// serverTime is what is known of the leader's clock, if anything is;
	// awaitServerTime waits until something is.
	serverTime() (ServerTime, bool)
	awaitServerTime(ctx context.Context) error

	// await calls see with the node as it is, and again each time that it, or
	// with children its list of children, may have changed, until see reports
	// true or an error.
	await(ctx context.Context, path string, children bool, see func(nodeSight) (bool, error)) error
}

var _ tickStore = (*Client)(nil)
