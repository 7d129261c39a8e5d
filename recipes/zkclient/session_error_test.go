package zkclient

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestAnswersThatTellOfTheSessionAreTriedAgain(t *testing.T) {
	s := &Session{c: &Client{}}
	for err, again := range map[error]bool{
		errors.New("unknown error: -12"):  true, // UnknownSessionException: it has just ended
		errors.New("unknown error: -6"):   false,
		errors.New("unknown error: -124"): false,
		zk.ErrAPIError:                    true,
		zk.ErrNoNode:                      false,
	} {
		require.Equal(t, again, errors.Is(s.classify(err), ErrAmbiguous), err)
	}
}
