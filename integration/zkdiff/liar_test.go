package zkdiff

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that is wrong in one respect is found out, and the report contains only what is needed to see it.
func TestLiarIsFoundOutAndItsLieToldInFewSteps(t *testing.T) {
	const notEmpty = -111
	wrong := int32(noNode)
	liar := lying(embedded, func(frame []byte) {
		d := decoder{buf: frame}
		if d.header().code == notEmpty {
			binary.BigEndian.PutUint32(frame[12:], uint32(wrong))
		}
	})
	p, err := launchPair(t.Context(), embedded, liar)
	require.NoError(t, err)
	found := explore(t.Context(), p, newGenerator(1, sessions), 5000, func(int) {})
	require.NoError(t, p.close())
	require.NotNil(t, found, "the lie was not noticed")
	require.Greater(t, len(found.script), 10, "for the shrinking to be worth something")

	short, ok := shrinkDivergence(t, embedded, liar, found)

	require.True(t, ok)
	require.Len(t, short.script, 3, "%s", short)
	require.Equal(t, Delete, short.script[2].Do, "%s", short)
	require.Contains(t, short.difference, "real: reply Delete xid=")
	require.Contains(t, short.difference, "err=-111")
	require.Contains(t, short.difference, "err=-101")
}

// lying starts a server whose frames are altered.
func lying(launch launcher, lie func(frame []byte)) launcher {
	return func(ctx context.Context) (server, error) {
		truth, err := launch(ctx)
		if err != nil {
			return server{}, err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return server{}, err
		}
		var running sync.WaitGroup
		running.Go(func() {
			for {
				client, err := listener.Accept()
				if err != nil {
					return
				}
				running.Go(func() { tell(client, truth.addr, lie) })
			}
		})
		return server{listener.Addr().String(), func() error {
			listener.Close()
			err := truth.stop()
			running.Wait()
			return err
		}}, nil
	}
}

// tell stands between a client and the truth until one of them hangs up.
func tell(client net.Conn, addr string, lie func(frame []byte)) {
	defer client.Close()
	truth, err := dial(addr)
	if err != nil {
		return
	}
	defer truth.Close()
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = io.Copy(truth, client)
		truth.Close()
	})
	out := &conn{Conn: client}
	for {
		frame, err := truth.receive(longSession)
		if err != nil {
			break
		}
		lie(frame)
		out.send(frame)
	}
	client.Close()
	asking.Wait()
}
