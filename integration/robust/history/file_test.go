package history

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReaderFollowsFilesAndWaitsForTheRestOfALine(t *testing.T) {
	dir := t.TempDir()
	a, err := Create(filepath.Join(dir, "a.jsonl"))
	require.NoError(t, err)
	b, err := Create(filepath.Join(dir, "b.jsonl"))
	require.NoError(t, err)
	r := NewReader(dir)
	require.NoError(t, a.Write(Event{At: 1, Client: "a", Kind: Started}))
	require.NoError(t, a.Write(Event{At: 3, Client: "a", Kind: Invoked, Who: "a/1"}))
	require.NoError(t, b.Write(Event{At: 2, Client: "b", Kind: Started}))

	events, err := r.Events()
	require.NoError(t, err)
	require.Equal(t, []Event{
		{At: 1, Client: "a", Kind: Started}, {At: 2, Client: "b", Kind: Started}, {At: 3, Client: "a", Kind: Invoked, Who: "a/1"},
	}, events)

	_, err = b.file.WriteString(`{"at":4,"client":"b"`)
	require.NoError(t, err)
	events, err = r.Events()
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Equal(t, []string{"b"}, r.Torn())
	_, err = b.file.WriteString(",\"kind\":\"stopped\"}\n")
	require.NoError(t, err)
	events, err = r.Events()
	require.NoError(t, err)
	require.Equal(t, Event{At: 4, Client: "b", Kind: Stopped}, events[3])
	require.Empty(t, r.Torn())
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

func TestReaderRefusesALineThatIsBroken(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte("{\"at\":1}\n{\"at\":\n"), 0o600))
	_, err := NewReader(dir).Events()
	require.ErrorContains(t, err, "after 9 bytes")
}

func TestStampsOfTheMachineGrow(t *testing.T) {
	before := Now()
	require.Positive(t, before)
	require.GreaterOrEqual(t, Now(), before)
}
