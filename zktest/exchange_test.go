package zktest

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

func TestTraceReadsLikeAConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		w := h.dial(t, "A", "east")
		drop := h.On(Op(Delete)).DropReply()
		time.Sleep(1204 * time.Millisecond)
		w.ask(create("/locks/x"), exists("/locks"))
		w.ask(multi(body{zkwire.OpCheck, zkwire.Int32(zkwire.String(nil, "/locks"), 3)}, create("/locks/y")))
		w.tell(zkwire.NodeDeleted, "/locks/x")
		w.ask(remove("/locks/y"))

		var lines []string
		for _, e := range h.exchanges() {
			lines = append(lines, regexp.MustCompile(`_test.go:\d+`).ReplaceAllString(e.String(), "_test.go:1"))
		}
		require.Equal(t, []string{
			"+0.000s A,east 0x0 → connect, timeout 10s",
			"+0.000s A,east 0x7 ← connected to session 0x7, timeout 10s",
			"+1.204s A,east 0x7 → #1 create /locks/x",
			"+1.204s A,east 0x7 ← #1 create ok, zxid 0x2",
			"+1.204s A,east 0x7 → #2 exists /locks, watch",
			"+1.204s A,east 0x7 ← #2 exists ok, zxid 0x3",
			"+1.204s A,east 0x7 → #3 multi[check /locks v3, create /locks/y]",
			"+1.204s A,east 0x7 ← #3 multi ok, zxid 0x4",
			"+1.204s A,east 0x7 ← NodeDeleted /locks/x",
			"+1.204s A,east 0x7 → #4 delete /locks/y",
			"+1.204s A,east 0x7 ← #4 delete ok, zxid 0x5",
			"+1.204s A,east 0x7 ✂ #4 delete ok, zxid 0x5: DropReply of delete at exchange_test.go:1",
		}, lines)
		last := h.exchanges()[len(lines)-1]
		require.Same(t, drop, last.Rule)
		require.True(t, last.ToClient)
		require.Equal(t, int64(7), last.Session)
		require.Equal(t, "A,east", last.From)
	})
}

func TestTraceKeepsTheLastExchanges(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	for range traceLength {
		w.ask(exists("/"))
	}
	all := h.exchanges()
	require.Len(t, all, traceLength)
	require.Contains(t, all[traceLength-1].String(), "← #4096 ")
	require.Contains(t, all[0].String(), "→ #2049 ")
}

func TestTraceKeepsTheTextOfLongFramesOnly(t *testing.T) {
	h := newHouse()
	w := h.dial(t)
	data := []byte(strings.Repeat("x", 1<<16))
	w.ask(body{zkwire.OpSetData, zkwire.Int32(zkwire.Buffer(zkwire.String(nil, "/big"), data), 4)})
	e := h.exchanges()[2]
	require.Nil(t, e.body)
	require.Contains(t, e.String(), "#1 setData /big (65536 bytes) v4")
}

func TestLongTransactionIsDescribedInPart(t *testing.T) {
	var ops []body
	for range 20 {
		ops = append(ops, remove("/x"))
	}
	text := describeRequest(requestBody(1, multi(ops...)))
	require.True(t, strings.HasSuffix(text, "delete /x, … 20 in all]"), text)
	require.Equal(t, maxOps, strings.Count(text, "delete"))
}
