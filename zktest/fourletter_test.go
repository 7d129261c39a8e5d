package zktest

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFourLetterWordsMayBeForbidden(t *testing.T) {
	s := RunT(t, FourLetterWords("srvr"))
	require.Contains(t, word(t, s.Addr(), "srvr"), "Mode: standalone")
	require.Equal(t, "ruok is not executed because it is not in the whitelist.\n", word(t, s.Addr(), "ruok"))
	require.Empty(t, word(t, s.Addr(), "xyzw"), "no word at all")
}

func word(t testing.TB, address, word string) string {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Write([]byte(word))
	require.NoError(t, err)
	text, err := io.ReadAll(nc)
	require.NoError(t, err)
	return string(text)
}
