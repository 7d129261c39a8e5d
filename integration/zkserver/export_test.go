package zkserver

import "errors"

// WithoutMount makes WithFullableDisk do as on a machine that forbids mounts.
func WithoutMount() Option {
	return func(o *options) { o.unmountable = errors.New("not here, for a test") }
}
