package zkclient

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-zookeeper/zk"
)

// ErrSessionOver wraps every error of a request whose session has ended.
var ErrSessionOver = errors.New("the ZooKeeper session has ended")

// ErrAmbiguous wraps the error of a request whose reply never came: it may or
// may not have been executed.
var ErrAmbiguous = errors.New("connection to ZooKeeper lost before the reply")

// classify tells errors that say something about the data from those that say
// something about the connection.
func (s *Session) classify(err error) error {
	switch {
	case err == nil:
		return nil
	case s.IsOver():
		return s.overErr
	case errors.Is(err, zk.ErrNoAuth):
		return s.c.forbidden(err)
	case errors.Is(err, zk.ErrInvalidACL):
		return s.c.unknownIdentity(err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrAuthFailed),
		errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrNoChildrenForEphemerals),
		errors.Is(err, zk.ErrBadArguments):
		return err
	}
	var network net.Error
	switch {
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrNoServer),
		errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved), errors.Is(err, zk.ErrAPIError),
		errors.Is(err, zk.ErrShortBuffer), isUnknownSession(err),
		errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.As(err, &network):
		// an answer, which the library cannot read
		if !errors.Is(err, zk.ErrAPIError) && !errors.Is(err, zk.ErrShortBuffer) {
			s.note(err)
		}
		return fmt.Errorf("%w: %w", ErrAmbiguous, err)
	}
	return fmt.Errorf("ZooKeeper refused a request: %w", err)
}

// isUnknownSession reports whether the server has just ended the session: its
// code -12 (KeeperException.UnknownSessionException), which a request gets that
// was on its way meanwhile and for which the library has no error.
func isUnknownSession(err error) bool { return strings.HasSuffix(err.Error(), "unknown error: -12") }
