package opstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode/znodetest"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func FuzzBoards(f *testing.F) {
	for _, text := range []string{
		"", " ", "null", `{"format":1,"overrides":[{"override":{"id":"a","kind":"freeze","match":{},"until":"2026-11-22T14:00:00Z","by":"ana","reason":"disk"},"posted_by":"digest:ana","posted_at":"2026-11-22T12:00:00Z","write":"w"}]}`,
		`{"format":1,"overrides":[{"override":{"id":"a","shard":1}}]}`, `{"format":2,"overrides":{}}`, `{"format":1,"overrides":[{"override":null}]}`, `{"format":1,"overrides":[{}]}`,
		`{"format":1,"guid":"g","host":"h","pid":1,"scope":"s","labels":{"a":"b"},"requestor":{"owner":"o","priority":2147483647},"holders":[{}],"waited_ms":9223372036854775807,"decision":{"write":"w","approved":true,"by":"x","identity":"i"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if board, err := decodeBoard(data); err != nil {
			znodetest.CheckRefusal(t, data, err)
		} else if first, err := board.encode(); err == nil { // else there are too many
			again, err := decodeBoard(first)
			require.NoError(t, err)
			second, err := again.encode()
			require.NoError(t, err)
			require.Equal(t, string(first), string(second))
			require.Len(t, again.posted(), len(board.Posted))
			board.drop(time.Unix(1767225600, 0))
		}
		if question, err := decodeApproval(data); err != nil {
			znodetest.CheckRefusal(t, data, err)
		} else {
			again, err := decodeApproval(znode.Encode(question))
			require.NoError(t, err)
			require.Equal(t, string(znode.Encode(question)), string(znode.Encode(again)))
			shown := approvalNode{id: "a-0000000001", rec: question, stat: &zkclient.Stat{Mtime: 5, Ctime: 5}}.public()
			require.Equal(t, question.Decision != nil, shown.Decision != nil)
			fit := question.fit()
			require.LessOrEqual(t, len(fit.Holders), maxAuditVictims+1)
		}
	})
}

func FuzzAudit(f *testing.F) {
	line := AuditRecord{Seq: 7, At: time.Unix(1767225600, 0).UTC(), Prev: "ab", ID: "i", AuditEntry: AuditEntry{
		Act: "a", Action: AuditBreak, Phase: AuditOutcome, By: "ana", Victims: []AuditParty{{Owner: "o"}}, Before: map[string]string{"a": "\u2028"}, Result: AuditDone,
	}}.sealed().line
	f.Add(line)
	f.Add(bytes.Replace(line, []byte("ana"), []byte("eve"), 1))
	f.Add(bytes.Replace(line, []byte(`"by"`), []byte(`"new":1,"by"`), 1))
	for _, text := range []string{"", "{}", `{"format":1,"seq":3,"hash":"x","first":1,"anchor":""}`, `{"format":1,"seq":9223372036854775807,"first":-9223372036854775808}`, `{"format":2}`, `{"seq":1,"at":"","prev":"","hash":"",`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		stat := &zkclient.Stat{Version: 1}
		if head, err := decodeAuditHead(data, stat); err == nil {
			require.GreaterOrEqual(t, head.First, int64(1))
			require.LessOrEqual(t, head.First, head.Seq+1)
			require.LessOrEqual(t, head.Seq-head.First, int64(MaxAuditKeep))
		} else if !errors.As(err, new(*AuditBrokenError)) {
			znodetest.CheckRefusal(t, data, err)
		}
		r, err := ParseAuditRecord(data)
		if err != nil && !errors.Is(err, ErrAuditAltered) {
			znodetest.CheckRefusal(t, nil, err)
			return
		}
		require.Equal(t, data, r.Line(), "what ships records ships lines")
		if err == nil { // one letter more, and it is found out
			_, err = ParseAuditRecord(append(bytes.Clone(data[:len(data)-1]), []byte(`,"x":1}`)...))
			require.Error(t, err)
		}
		sealed := r.sealed() // unknown members are lost: so a record that was read is never sealed
		if again, err := ParseAuditRecord(sealed.line); err == nil {
			require.Equal(t, sealed.Hash, again.Hash)
			require.Equal(t, sealed.Seq, again.Seq)
		}
		entry := r.fit()
		require.Equal(t, string(znode.Encode(entry)), string(znode.Encode(entry.fit())), "what fits is not cut again")
	})
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"a-0000000012", "a--000000012", "a-000000012", "a--000000000", "0000000012", "-000000012", "a-", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if IsApprovalID(name) {
			require.Len(t, strings.Split(name, "/"), 1)
			n, ok := znode.ParseSequence(name[len(approvalPrefix):])
			require.True(t, ok)
			require.Equal(t, name, approvalPrefix+znodetest.SequenceName(n))
		}
		if seq, ok := auditSeq(name); ok {
			require.Equal(t, "/log/"+name, (&AuditLog{}).node(seq))
		}
	})
}
