package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode/znodetest"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func FuzzGroupRecords(f *testing.F) {
	spec := Spec{Name: "g", Locks: []string{"a", "b"}, Holders: 1, Strategy: "balanced", Weights: map[string]float64{"a": 1.5}}
	f.Add(spec.encode())
	f.Add(memberRecord{Format: 1, Name: "m", Released: map[lock.Token][]string{7: {"a"}}}.encode())
	a := newAssignment()
	a.locks["a"] = &groupLock{holders: []groupEntry{{guid: znode.NewGUID(), name: "m", token: 5}, {guid: znode.NewGUID(), name: "n", revoking: true}}, plan: []string{"n", "p"}}
	f.Add(a.encode())
	for _, text := range []string{"", "{}", `{"format":2}`, `{"format":1,"members":[{"id":"a"}],"locks":{"x":{"h":[[0]]}}}`, `{"format":1,"members":[],"locks":{"x":{"h":[[0,1]],"p":[-1]}}}`, `{"format":1,"locks":{"":{"h":[[0,0,1,2,3]]}}}`, `{"x":{"h":[[0,5],[1,6,1]],"p":[1,2]},"y":{"p":[]}}`, `{"format":1,"released":{"-5":["a","a"]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if spec, err := decodeSpec(data); err != nil {
			znodetest.CheckRefusal(t, data, err)
		} else {
			again, err := decodeSpec(spec.encode())
			require.NoError(t, err)
			require.Equal(t, string(spec.encode()), string(again.encode()))
			spec.complete()
		}
		if member, err := decodeMember(data); err != nil {
			znodetest.CheckRefusal(t, data, err)
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
			znodetest.CheckRefusal(t, data, err)
		}
	})
}

func FuzzNames(f *testing.F) {
	guid := znode.NewGUID()
	for _, name := range []string{memberNode("node%2F1", guid) + "0000000003", memberNode("a-b", guid) + "-000000003", memberNode("a", guid) + "-000000000", "a-0000000012", "0000000012", "a%", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if m, ok := parseMember(name); ok {
			escaped, err := znode.EscapeScope(m.name)
			require.NoError(t, err)
			require.Equal(t, name, memberNode(escaped, m.guid)+znodetest.SequenceName(m.seq))
		}
	})
}

// Whatever the numbers, all who see the same nodes find the same order.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2}, uint8(3))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0x80, 0, 0, 1}, uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, turn uint8) {
		var names []string
		for i := 0; i+4 <= len(data) && i < 4*64; i += 4 {
			n := int32(uint32(data[i])<<24 | uint32(data[i+1])<<16 | uint32(data[i+2])<<8 | uint32(data[i+3]))
			names = append(names, memberNode("m", fmt.Sprintf("%0*x", znode.GUIDLength, i))+znodetest.SequenceName(n))
		}
		present := parseMembers(names)
		require.Len(t, present, len(names))
		if len(names) == 0 {
			return
		}
		k := int(turn) % len(names)
		names = slices.Concat(names[k:], names[:k])
		if turn&1 == 1 {
			slices.Reverse(names)
		}
		require.Equal(t, present, parseMembers(names))
	})
}
