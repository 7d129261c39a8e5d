package resource

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteWithASmallerTokenIsRefusedAndChangesNothing(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "resource"))
	s, err := f.Read(0)
	require.NoError(t, err)
	require.Zero(t, s)

	s, err = f.Write(7)
	require.NoError(t, err)
	require.Equal(t, State{Token: 7, Count: 1}, s)
	s, err = f.Write(7)
	require.NoError(t, err, "the same holder writes again")
	require.Equal(t, State{Token: 7, Count: 2}, s)

	s, err = f.Write(6)
	require.ErrorIs(t, err, ErrStale)
	require.Equal(t, State{Token: 7, Count: 2}, s)
	s, err = f.Read(0)
	require.NoError(t, err)
	require.Equal(t, State{Token: 7, Count: 2}, s)

	s, err = f.Write(9)
	require.NoError(t, err)
	require.Equal(t, State{Token: 9, Count: 3}, s)
}

func TestReaderFencesOffOlderWritersAndIsNeverRefused(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "resource"))
	_, err := f.Write(7)
	require.NoError(t, err)
	s, err := f.Read(9)
	require.NoError(t, err)
	require.Equal(t, State{Token: 9, Count: 1}, s)

	_, err = f.Write(7)
	require.ErrorIs(t, err, ErrStale)
	s, err = f.Read(8)
	require.NoError(t, err)
	require.Equal(t, State{Token: 9, Count: 1}, s)
	_, err = f.Write(10)
	require.NoError(t, err)
}
