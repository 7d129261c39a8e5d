package group

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// somePlaces are locks with names and states by chance; plain says that no name
// needs escapes in JSON.
func somePlaces(dice *rand.Rand, plain bool) groupPlaces {
	all := map[string]groupPlace{}
	names := []string{"g_%d", "a/b-%d", "ü %d", `"quoted" %d`, "<&%d>", "\u2028%d", `\%d`}
	if plain {
		names = names[:3]
	}
	for i := range dice.IntN(12) {
		name := fmt.Sprintf(names[dice.IntN(len(names))], i)
		p := groupPlace{lock: name}
		for range dice.IntN(4) {
			p.holders = append(p.holders, placeHolder{member: int64(dice.IntN(100)), token: lock.Token(dice.Int64N(1 << 59)), revoking: dice.IntN(3) == 0})
		}
		if p.differs = dice.IntN(2) == 0; p.differs {
			for range dice.IntN(4) {
				p.plan = append(p.plan, dice.IntN(200))
			}
		}
		all[name] = p
	}
	places := groupPlaces{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		places = append(places, all[name])
	}
	return places
}

func TestPlacesAreWrittenAndReadAsJSONIs(t *testing.T) {
	t.Parallel()
	type place struct {
		Holders [][]int64 `json:"h,omitempty"`
		Plan    *[]int    `json:"p,omitempty"`
	}
	for seed := range uint64(300) {
		easy := seed%2 == 0
		places := somePlaces(rand.New(rand.NewPCG(seed, 3)), easy)
		plain := map[string]place{}
		for _, p := range places {
			out := place{}
			for _, h := range p.holders {
				row := []int64{h.member, int64(h.token)}
				if h.revoking {
					row = append(row, 1)
				}
				out.Holders = append(out.Holders, row)
			}
			if p.differs {
				plan := append([]int{}, p.plan...)
				out.Plan = &plan
			}
			plain[p.lock] = out
		}
		want, err := json.Marshal(plain)
		require.NoError(t, err)
		require.Equal(t, string(want), string(znode.Encode(places)))

		var fast, slow groupPlaces
		require.NoError(t, fast.UnmarshalJSON(want))
		require.NoError(t, slow.unmarshal(want))
		require.Equal(t, string(want), string(znode.Encode(fast)))
		require.Equal(t, string(want), string(znode.Encode(slow)))
		require.True(t, !easy || (&placeReader{text: string(want)}).places(), "%s is not read by hand", want)
	}
}

// Each participant finds in the assignment what the controller has written for
// it, and nothing else.
func TestShareOfAParticipantIsWhatTheAssignmentSays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 5))
		a := newAssignment()
		a.cleanup = 7_000_000
		for _, p := range somePlaces(dice, seed%2 == 0) {
			l := &groupLock{}
			for i := range p.holders {
				who := fmt.Sprint("p", (dice.IntN(2)+2*i)%4)
				l.holders = append(l.holders, groupEntry{guid: "guid of " + who, name: who, token: lock.Token(dice.IntN(3)), revoking: dice.IntN(2) == 0})
			}
			a.locks[p.lock] = l
		}
		stat := &zkclient.Stat{Mzxid: 99}
		data := a.encode()
		read, err := decodeAssignment(data, stat)
		require.NoError(t, err)
		for i := range 5 {
			guid := fmt.Sprint("guid of p", i)
			var want []groupOrder
			for lock, l := range read.locks {
				for _, e := range l.holders {
					if e.guid == guid {
						want = append(want, groupOrder{LockGrant{lock, e.token}, e.revoking})
					}
				}
			}
			share, err := decodeShare(data, stat, guid)
			require.NoError(t, err)
			require.ElementsMatch(t, want, share.entries)
			require.Equal(t, a.cleanup, share.cleanup)
			for lock := range read.locks {
				require.True(t, share.has(lock))
			}
			require.False(t, share.has("g_"))
			require.False(t, share.has("zzz"))
		}
	}
	for _, data := range []string{`{"format":2}`, `{`, `{"format":1,"members":[],"locks":{"a":{"h":[[0,1]]}}}`, `{"format":1,"locks":{"a":{"p":[0]}}}`, `{"format":1,"members":[{"id":"x"}],"locks":{"a":{"h":[[0]]}}}`} {
		_, err := decodeShare([]byte(data), &zkclient.Stat{}, "x")
		require.Error(t, err, data)
	}
	a := newAssignment()
	a.locks["lock"] = &groupLock{holders: []groupEntry{{guid: "x", name: "x", token: 1}}}
	share, err := decodeShare(a.encode(), &zkclient.Stat{}, "x")
	require.NoError(t, err)
	require.NotSame(t, unsafe.StringData(share.locks[0].lock), unsafe.StringData(share.entries[0].grant.Lock), "a grant keeps the whole assignment in memory")

	share, err = decodeShare(nil, &zkclient.Stat{}, "x")
	require.NoError(t, err)
	require.Empty(t, share.entries)
	require.False(t, share.has("a"))
}

// What the program writes is read by hand; all else, be it of an administrator or
// of another program, means what it means in JSON.
func TestPlacesInAnyOtherFormAreReadAsJSON(t *testing.T) {
	t.Parallel()
	const written = `{"a":{"h":[[0,5]]},"b":{"h":[[0,5,1],[1,7]],"p":[2]},"c":{"p":[]},"d":{}}`
	require.True(t, (&placeReader{text: written}).places())
	for text, want := range map[string]string{
		`{"a": {"h": [[0, 5]]}}`:                     `{"a":{"h":[[0,5]]}}`,
		`{"a":{"p":[1],"h":[[0,5]]}}`:                `{"a":{"h":[[0,5]],"p":[1]}}`,
		`{"b":{"h":[[0,5]]},"a":{}}`:                 `{"a":{},"b":{"h":[[0,5]]}}`,
		`{"a":{"h":[[0,5]]},"a":{"h":[[1,6]]}}`:      `{"a":{"h":[[1,6]]}}`,
		`{"a":{"h":[[0,5,2]]}}`:                      `{"a":{"h":[[0,5,1]]}}`,
		`{"a":{"h":[[0,5,1,4]],"x":[{}]}}`:           `{"a":{"h":[[0,5,1]]}}`,
		`{"a":{"h":[[0,5,0]]}}`:                      `{"a":{"h":[[0,5]]}}`,
		`{"a":{"h":null,"p":null}}`:                  `{"a":{}}`,
		`{"\u0061":{"h":[[0,9223372036854775807]]}}`: `{"a":{"h":[[0,9223372036854775807]]}}`,
		`{"a":{"h":[[-1,-5]]}}`:                      `{"a":{"h":[[-1,-5]]}}`,
		"{\"\xff\":{}}":                              `{"` + "\ufffd" + `":{}}`,
		`null`:                                       `{}`,
	} {
		require.False(t, (&placeReader{text: text}).places(), text)
		var got groupPlaces
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		require.Equal(t, want, string(znode.Encode(got)), text)
	}
	for _, text := range []string{`[]`, `{"a":1}`, `{"a":{"h":[[0.5,1]]}}`, `{"a":{"h":[["0",1]]}}`, `{"a":{"h":[[0,99999999999999999999]]}}`} {
		require.Error(t, json.Unmarshal([]byte(text), new(groupPlaces)), text)
	}
}
