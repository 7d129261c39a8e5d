package nightly

import (
	"errors"
	"fmt"
	"os"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
)

// dataSet makes the data set in dir, or in a temporary directory if that is
// empty. remove removes only the latter.
func dataSet(dir string) (set *orders.Set, remove func() error, err error) {
	remove = func() error { return nil }
	if dir == "" {
		if dir, err = os.MkdirTemp("", "lockkeeper-nightly-"); err != nil {
			return nil, nil, fmt.Errorf("create the data set: %w", err)
		}
		remove = func() error { return os.RemoveAll(dir) }
	}
	if set, err = orders.Create(dir); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return set, remove, nil
}
