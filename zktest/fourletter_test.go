package zktest

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestFourLetterWordsTellOfTheServer(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	c.create("/eph", wire.Ephemeral)
	c.exists("/eph", true)

	require.Equal(t, "imok", word(t, s, "ruok"))
	require.Equal(t, "rw", word(t, s, "isro"))
	require.Regexp(t, `^Zookeeper version: 3\.8\.0(.|\n)*Zxid: 0x2\nMode: standalone\nNode count: 6\n$`, word(t, s, "srvr"))
	require.Regexp(t, `Clients:\n( /127\.0\.0\.1:\d+\[\d\]\(queued=0,recved=\d,sent=\d\)\n)+\n`, word(t, s, "stat"))
	require.Contains(t, word(t, s, "mntr"), "zk_watch_count\t1\n")
	require.Contains(t, word(t, s, "envi"), "zookeeper.version=3.8.0")
	require.Contains(t, word(t, s, "conf"), "tickTime=2000\n")
	require.Regexp(t, `sid=0x1[0-9a-f]+,lop=EXIS,.*to=10000,lcxid=0x2,lzxid=0x2`, word(t, s, "cons"))
	require.Equal(t, "1 connections watching 1 paths\nTotal watches:1\n", word(t, s, "wchs"))
	require.Regexp(t, `^/eph\n\t0x1[0-9a-f]+\n\n$`, word(t, s, "wchp"))
	require.Regexp(t, `^0x1[0-9a-f]+\n\t/eph\n\n$`, word(t, s, "wchc"))
	require.Regexp(t, `Sessions with Ephemerals \(1\):\n0x1[0-9a-f]+:\n\t/eph\n`, word(t, s, "dump"))
	require.Equal(t, "Server stats reset.\n", word(t, s, "srst"))
}

func TestFourLetterWordsMayBeForbidden(t *testing.T) {
	s := RunT(t, FourLetterWords("srvr"))
	require.Contains(t, word(t, s, "srvr"), "Mode: standalone")
	require.Equal(t, "ruok is not executed because it is not in the whitelist.\n", word(t, s, "ruok"))
	require.Empty(t, word(t, s, "xyzw"), "no word at all")
}

func word(t testing.TB, s *Server, word string) string {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Write([]byte(word))
	require.NoError(t, err)
	text, err := io.ReadAll(nc)
	require.NoError(t, err)
	return string(text)
}
