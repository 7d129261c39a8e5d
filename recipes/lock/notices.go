package lock

import "github.com/lockkeeper/lockkeeper/recipes/internal/call"

// notices are what the listener of a request and its grant gets.
type notices = call.Teller[Notice]

// newNotices returns those for a listener, which may be nil. Nothing follows a Lost.
func newNotices(listener func(Notice)) *notices {
	return &notices{Listener: listener, Last: func(n Notice) bool { _, lost := n.(Lost); return lost }}
}
