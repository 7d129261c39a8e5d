package recipes

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// These targets put anything into the nodes that the recipes read. What is
// accepted is written again as it was read; what is refused is told in one line.

// checkRefusal looks at an error about data, which come from anybody.
func checkRefusal(t *testing.T, data []byte, err error) {
	t.Helper()
	checkRefusalUpTo(t, znode.RecordFormat, data, err)
}

// checkRefusalUpTo is checkRefusal for records of any format up to the newest.
func checkRefusalUpTo(t *testing.T, newest int, data []byte, err error) {
	t.Helper()
	require.NotEmpty(t, err.Error())
	require.Less(t, len(err.Error()), 1000)
	if bad, ok := errors.AsType[*znode.RecordError](err); ok {
		require.Equal(t, bad.Format == 0, bad.Err != nil)
		told := znode.InNode(err, "/lockkeeper/x")
		require.ErrorContains(t, told, "/lockkeeper/x")
	}
	require.Equal(t, newerFormat(newest, data), znode.IsNewer(err), "%v", err)
}

// newerFormat reports whether data is an object that says it is of a later
// format.
func newerFormat(newest int, data []byte) bool {
	var its struct {
		Format json.RawMessage `json:"format"`
	}
	if json.Unmarshal(data, &its) != nil || strings.Trim(string(its.Format), "0123456789") != "" || len(its.Format) > 18 {
		return false
	}
	return len(its.Format) > 1 || len(its.Format) == 1 && int(its.Format[0]-'0') > newest
}

func FuzzContenderRecord(f *testing.F) {
	c := unconnected(f)
	rec := newRecord(c, Request{Identity: priority.Identity{Owner: "reindex"}, Terms: priority.Terms{Priority: 40, LeaseTimeout: time.Minute, MinRuntime: time.Second, WaitingTimeout: new(time.Duration(0))}, Override: &Mark{ID: "a", By: "b"}, Under: []string{"x"}})
	f.Add(rec.encode(), int64(1000), int64(7))
	rec.Granted = true
	rec.ask(askingNote{ID: "a", Reason: priority.Outranked, Grace: 5})
	rec.freeze(&zkclient.Stat{Mzxid: 7, Mtime: 50})
	f.Add(rec.encode(), int64(1000), int64(7))
	for _, text := range []string{
		"", "null", "[]", `"x"`, "5", "{}", `{"format":0}`, `{"format":2}`, `{"format":2,"owner":{"name":"x"},"mode":7}`, `{"format":1,"mode":"update"}`,
		`{"format":1,"shard":{"a":[1, 2]},"Owner":"x","preempt_by":[{"id":"a","hue":"red"}]}`, `{"format":1,"lease_timeout_ms":9223372036854775807,"granted":true}`,
		`{"format":1,"lease_timeout_ms":-9223372036854775808,"lease_from":-9223372036854775808,"min_runtime_ms":1}`, `{"format":1}{"format":2}`, `{"format":1,"granted":true,"granted_at":1,"token":-1}`,
	} {
		f.Add([]byte(text), int64(1767225600000), int64(9))
	}
	f.Fuzz(func(t *testing.T, data []byte, now, written int64) {
		rec, err := decodeContender(data)
		if err != nil {
			checkRefusalUpTo(t, delayFormat, data, err)
			return
		}
		again, err := decodeContender(rec.encode())
		require.NoError(t, err, "%s", rec.encode())
		require.Equal(t, string(rec.encode()), string(again.encode()))
		kept(t, data, rec.encode(), contenderFields)

		// as a holder, and as one who waits for it, see it
		stat := &zkclient.Stat{Mtime: written, Mzxid: written, Ctime: written, EphemeralOwner: 1}
		lease := rec.leaseLeft(stat, now)
		require.GreaterOrEqual(t, lease, time.Duration(0))
		require.LessOrEqual(t, lease, max(0, znode.Milliseconds(rec.LeaseTimeout)))
		least := rec.remaining(stat, now).MinRuntimeLeft
		require.GreaterOrEqual(t, least, time.Duration(0))
		require.LessOrEqual(t, least, lease)
		told := rec.contender(child{guid: "x"}, stat)
		if rec.LeaseTimeout > 0 {
			require.Positive(t, told.LeaseTimeout)
		}
		LockState{Scope: "a", Holders: []Contender{told}, Waiters: []Contender{told}, At: time.UnixMilli(now)}.Outlook()

		// as those see it who write it for its owner: nothing else is lost, and
		// what a write means stays
		rec.Granted = true
		token, from := rec.token(stat), rec.grantedAt(stat)
		rec.freeze(stat)
		rec.ask(askingNote{ID: "fuzz", Reason: priority.Outranked})
		require.True(t, rec.withdraw("fuzz"))
		others, err := decodeContender(rec.encode())
		require.NoError(t, err)
		later := &zkclient.Stat{Mtime: stat.Mtime + 1, Mzxid: stat.Mzxid + 1}
		if stat.Mzxid != 0 {
			require.Equal(t, token, others.token(later))
		}
		if stat.Mtime != 0 {
			require.Equal(t, from, others.grantedAt(later))
		}
		kept(t, data, rec.encode(), contenderFields)
	})
}

// kept checks that members which this program does not know came through.
func kept(t *testing.T, before, after []byte, known []string) {
	t.Helper()
	was, is := unknownIn(before, known), unknownIn(after, known)
	require.Len(t, is, len(was))
	for name, value := range was {
		require.JSONEq(t, string(value), string(is[name]), "%q", name)
	}
}

func FuzzLockRecord(f *testing.F) {
	f.Add(soleHolder(znode.NewGUID()))
	f.Add(lockRecord{Format: 1, Holders: []string{"a", "b"}, Evicted: []evictionNote{{ID: "x", Owner: "o", By: "b", Reason: priority.LeaseExpired, Override: &Mark{ID: "m"}, At: 5}}}.encode())
	for _, text := range []string{`{"format":2,"delays":[{"id":"x","delay_ms":1000,"ended":{}},{"delay_ms":-1},{"delay_ms":9223372036854775807,"ended":{"at":-9223372036854775808}}]}`, "", "{", "null", `{"format":1}`, `{"format":1,"holders":null,"evicted":[null,{}]}`, `{"format":3,"holders":{}}`, `{"format":3,"holders":["a"],"open":true}`, `{"format":4,"holders":{}}`, `{"format":1,"holders":[1]}`, `{"format":1e0}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := decodeLock(data)
		if err != nil {
			checkRefusalUpTo(t, openFormat, data, err)
			return
		}
		again, err := decodeLock(g.encode())
		require.NoError(t, err)
		require.Equal(t, g.encode(), again.encode())
		require.LessOrEqual(t, len(g.evict(evictionNote{ID: "new"})), maxEvictions+1)
		require.LessOrEqual(t, len(g.news(1767225600000)), len(g.Evicted))
		require.Len(t, g.with("me", nil).Holders, len(g.Holders)+1)
		stat := &zkclient.Stat{Mtime: 1767225600000, Mzxid: 7}
		carried := lockRecord{Delays: g.carry(stat, nil)}
		require.LessOrEqual(t, len(carried.Delays), len(g.Delays))
		later, err := decodeLock(carried.encode())
		require.NoError(t, err)
		for _, n := range later.carry(&zkclient.Stat{Mtime: 1767225600001, Mzxid: 8}, nil) {
			require.NotNil(t, n.Ended)
			require.True(t, n.comparable(stat) || n.comparable(&zkclient.Stat{Mtime: 1767225600001, Mzxid: 8}))
			n.describe()
		}
		for _, e := range g.Evicted {
			require.NotEmpty(t, e.loss("a").Error())
			require.True(t, e.same(e))
			e.eviction()
		}
	})
}

func FuzzBoards(f *testing.F) {
	for _, text := range []string{
		"", " ", "null", `{"format":1,"overrides":[{"override":{"id":"a","kind":"freeze","match":{},"until":"2026-11-22T14:00:00Z","by":"ana","reason":"disk"},"posted_by":"digest:ana","posted_at":"2026-11-22T12:00:00Z","write":"w"}]}`,
		`{"format":1,"overrides":[{"override":{"id":"a","shard":1}}]}`, `{"format":2,"overrides":{}}`, `{"format":1,"overrides":[{"override":null}]}`, `{"format":1,"overrides":[{}]}`,
		`{"format":1,"guid":"g","host":"h","pid":1,"scope":"s","labels":{"a":"b"},"requestor":{"owner":"o","priority":2147483647},"holders":[{}],"waited_ms":9223372036854775807,"decision":{"write":"w","approved":true,"by":"x","identity":"i"}}`,
		`{"format":1,"job":"backup","by":"ana","reason":"now","owner":"h:1","host":"h","pid":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if board, err := decodeBoard(data); err != nil {
			checkRefusal(t, data, err)
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
			checkRefusal(t, data, err)
		} else {
			again, err := decodeApproval(znode.Encode(question))
			require.NoError(t, err)
			require.Equal(t, string(znode.Encode(question)), string(znode.Encode(again)))
			shown := approvalNode{id: "a-0000000001", rec: question, stat: &zkclient.Stat{Mtime: 5, Ctime: 5}}.public()
			require.Equal(t, question.Decision != nil, shown.Decision != nil)
			fit := question.fit()
			require.LessOrEqual(t, len(fit.Holders), maxAuditVictims+1)
		}
		if err := ticks.CheckRequest(data); err != nil {
			checkRefusal(t, data, err)
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
			checkRefusal(t, data, err)
		}
		r, err := ParseAuditRecord(data)
		if err != nil && !errors.Is(err, ErrAuditAltered) {
			checkRefusal(t, nil, err)
			return
		}
		require.Equal(t, data, r.Line(), "what ships records ships lines")
		if err == nil { // one letter more, and it is found out
			_, err = ParseAuditRecord(append(bytes.Clone(data[:len(data)-1]), []byte(`,"x":1}`)...))
			require.Error(t, err)
		}
		sealed := r.sealed() // members that are not known are lost: so nobody seals what he has read
		if again, err := ParseAuditRecord(sealed.line); err == nil {
			require.Equal(t, sealed.Hash, again.Hash)
			require.Equal(t, sealed.Seq, again.Seq)
		}
		entry := r.fit()
		require.Equal(t, string(znode.Encode(entry)), string(znode.Encode(entry.fit())), "what fits is not cut again")
	})
}

func FuzzGroupRecords(f *testing.F) {
	spec := GroupSpec{Name: "g", Locks: []string{"a", "b"}, Holders: 1, Strategy: "balanced", Weights: map[string]float64{"a": 1.5}}
	f.Add(spec.encode())
	f.Add(memberRecord{Format: 1, Name: "m", Released: map[Token][]string{7: {"a"}}}.encode())
	a := newAssignment()
	a.locks["a"] = &groupLock{holders: []groupEntry{{guid: znode.NewGUID(), name: "m", token: 5}, {guid: znode.NewGUID(), name: "n", revoking: true}}, plan: []string{"n", "p"}}
	f.Add(a.encode())
	for _, text := range []string{"", "{}", `{"format":2}`, `{"format":1,"members":[{"id":"a"}],"locks":{"x":{"h":[[0]]}}}`, `{"format":1,"members":[],"locks":{"x":{"h":[[0,1]],"p":[-1]}}}`, `{"format":1,"locks":{"":{"h":[[0,0,1,2,3]]}}}`, `{"x":{"h":[[0,5],[1,6,1]],"p":[1,2]},"y":{"p":[]}}`, `{"format":1,"released":{"-5":["a","a"]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if spec, err := decodeSpec(data); err != nil {
			checkRefusal(t, data, err)
		} else {
			again, err := decodeSpec(spec.encode())
			require.NoError(t, err)
			require.Equal(t, string(spec.encode()), string(again.encode()))
			spec.complete()
		}
		if member, err := decodeMember(data); err != nil {
			checkRefusal(t, data, err)
		} else {
			again, err := decodeMember(member.encode())
			require.NoError(t, err)
			require.Equal(t, string(member.encode()), string(again.encode()))
		}
		if json.Valid(data) {
			var fast, slow groupPlaces
			err, slowly := fast.UnmarshalJSON(data), slow.unmarshal(data)
			require.Equal(t, slowly == nil, err == nil, "%v, %v", err, slowly)
			require.Equal(t, string(znode.Encode(slow)), string(znode.Encode(fast)))
		}
		stat := &zkclient.Stat{Mzxid: 77}
		if a, err := decodeAssignment(data, stat); err == nil {
			for _, l := range a.locks {
				for _, e := range l.holders {
					require.NotZero(t, e.token)
				}
			}
			again, err := decodeAssignment(a.encode(), stat)
			require.NoError(t, err, "%s", a.encode())
			require.Equal(t, string(a.encode()), string(again.encode()))
			require.Equal(t, string(a.encode()), string(a.clone().encode()))
		} else if !errors.Is(err, errBadAssignment) {
			checkRefusal(t, data, err)
		}
	})
}

func FuzzNames(f *testing.F) {
	guid := znode.NewGUID()
	for _, name := range []string{
		contenderName(7, priority.Shared, guid) + "-2147483648", contenderName(0, priority.Exclusive, guid) + "0000000001", contenderName(0, priority.Exclusive, guid) + "+000000001",
		"_c_6f0c7f63-0d1d-4b1f-8a3e-f1e0a6a5d2aa-lock-0000000001", "6f0c7f630d1d4b1f8a3ef1e0a6a5d2aa__rlock__0000000001", "x__WRIT__2147483647", "lock-lock-0000000000",
		memberNode("node%2F1", guid) + "0000000003", memberNode("a-b", guid) + "-000000003", "a-0000000012", "a--000000012", "0000000012", "cluster%2Forders", "%2E.", "zookeeper", "%7Aookeeper", "é", "a%", "scratch-" + guid, "",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if c, ok := parseChild(name); ok {
			require.Equal(t, name, contenderName(c.level(), c.mode, c.guid)+sequenceName(c.place.Sequence))
		}
		if m, ok := parseMember(name); ok {
			escaped, err := znode.EscapeScope(m.name)
			require.NoError(t, err)
			require.Equal(t, name, memberNode(escaped, m.guid)+sequenceName(m.seq))
		}
		if ticket, ok := parseTicket(name, lockMarks); ok {
			require.Equal(t, name, name[:len(name)-len(ticket.mark.text)-len(ticket.number)]+ticket.mark.text+ticket.number)
			require.Contains(t, lockMarks, ticket.mark)
		}
		if isApprovalID(name) {
			require.Len(t, strings.Split(name, "/"), 1)
			n, ok := znode.ParseSequence(name[len(approvalPrefix):])
			require.True(t, ok)
			require.Equal(t, name, approvalPrefix+sequenceName(n))
		}
		if seq, ok := auditSeq(name); ok {
			require.Equal(t, "/log/"+name, (&AuditLog{}).node(seq))
		}
		if scope, ok := znode.UnescapeScope(name); ok {
			again, err := znode.EscapeScope(scope)
			require.NoError(t, err)
			require.Equal(t, name, again)
		}
		if escaped, err := znode.EscapeScope(name); err == nil {
			back, ok := znode.UnescapeScope(escaped)
			require.True(t, ok)
			require.Equal(t, name, back)
			require.NotContains(t, escaped, "/")
			require.NoError(t, zkclient.CheckOurs("path", lockPath("/r", escaped)))
			require.True(t, isLockNode("/r", lockPath("/r", escaped)))
		} else {
			require.NotEmpty(t, err.Error())
		}
	})
}

// sequenceName is how ZooKeeper writes a sequence number.
func sequenceName(n int32) string {
	sign := ""
	magnitude := int64(n)
	if n < 0 {
		sign, magnitude = "-", -magnitude
	}
	digits := Token(magnitude).String()
	return sign + strings.Repeat("0", max(0, 10-len(sign)-len(digits))) + digits
}

// Whatever the numbers, whoever sees the same nodes finds the same order; and
// where the numbers were given out within half a round, it is that of the
// differences.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2}, uint8(3))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0x80, 0, 0, 1}, uint8(1))
	f.Add([]byte{0, 0, 0, 0, 0x40, 0, 0, 0, 0x80, 0, 0, 0, 0xc0, 0, 0, 0}, uint8(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, turn uint8) {
		var names, tickets, members []string
		for i := 0; i+4 <= len(data) && i < 4*64; i += 4 {
			n := int32(uint32(data[i])<<24 | uint32(data[i+1])<<16 | uint32(data[i+2])<<8 | uint32(data[i+3]))
			guid := strings.Repeat("0", znode.GUIDLength-2) + string("0123456789abcdef"[i/4%16]) + string("0123456789abcdef"[i/64])
			names = append(names, contenderName(priority.Level(data[i+3]&1), priority.Exclusive, guid)+sequenceName(n))
			tickets = append(tickets, "_c_"+guid+"-lock-"+sequenceName(n))
			members = append(members, memberNode("m", guid)+sequenceName(n))
		}
		l := &line{marks: lockMarks}
		children, _ := parseChildren(names)
		queue, present := l.order(tickets), parseMembers(members)
		require.Len(t, children, len(names))
		require.Len(t, queue, len(names))
		require.Len(t, present, len(names))
		if len(names) == 0 {
			return
		}
		k := int(turn) % len(names)
		for _, list := range []*[]string{&names, &tickets, &members} {
			*list = slices.Concat((*list)[k:], (*list)[:k])
			if turn&1 == 1 {
				slices.Reverse(*list)
			}
		}
		again, _ := parseChildren(names)
		require.Equal(t, children, again)
		require.Equal(t, queue, l.order(tickets))
		require.Equal(t, present, parseMembers(members))
		for i := 1; i < len(children); i++ {
			require.GreaterOrEqual(t, children[i-1].level(), children[i].level())
		}
		// one priority
		numbers := make([]int32, len(queue))
		for i, q := range queue {
			numbers[i] = q.sequence
			require.Equal(t, q.sequence, present[i].seq)
		}
		for _, from := range numbers {
			// All within half a round behind one of them: that one is the first.
			if !slices.ContainsFunc(numbers, func(n int32) bool { return uint32(n)-uint32(from) >= 1<<31 }) {
				require.Equal(t, from, numbers[0])
				for i := 1; i < len(numbers); i++ {
					require.LessOrEqual(t, numbers[i-1]-numbers[i], int32(0))
				}
			}
		}
	})
}

func FuzzLimit(f *testing.F) {
	for _, data := range []string{"", "\x00\x00\x00\x05", "5", " 5\n", "\xff\xff\xff\xff", "05", "5 "} {
		f.Add([]byte(data), 5)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit &= 0xffff
		for _, naming := range []Naming{NamingCurator, NamingKazoo} {
			m := &Semaphore{o: SemaphoreOptions{Naming: naming, Limit: limit}}
			n, ok := m.decodeLimit(m.encodeLimit(limit))
			require.True(t, ok)
			require.Equal(t, limit, n)
			if n, ok := m.decodeLimit(data); ok {
				require.GreaterOrEqual(t, n, 0)
				again, ok := m.decodeLimit(m.encodeLimit(n))
				require.True(t, ok)
				require.Equal(t, n, again)
			}
		}
	})
}
