package zkdiff

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// quirks are what a plausible reading of the documentation gets wrong. Each was found by lock-step.
var quirks = map[string]Script{
	"an unknown operation is answered with zxid -1, then the server hangs up": {
		{Do: Op(77)}, {Do: Op(0)}, {Do: Op(-1)},
	},
	"a client's DeleteContainer is never right, because its length is taken for a part of the path": {
		{Do: DeleteContainer, Path: "/none"}, {Do: DeleteContainer, Path: "/"}, {Do: DeleteContainer, Path: "/none", Cut: 1},
	},
	"a wrong time to live does no harm where none is asked for": {
		{Do: Multi, Subs: []Step{{Do: CreateTTL, Path: "/none/x", ACL: everybody, TTL: 1 << 40}}},
	},
	"flags that need another operation are an error of the one in the multi": {
		{Do: Multi, Subs: []Step{{Do: SetData, Path: "/none", Version: 3}, {Do: Create2, Path: "/x", ACL: everybody, Flags: sequentialTTL}}},
		{Do: Multi, Subs: []Step{{Do: Create, Path: "/x", ACL: everybody, Flags: 1 << 30}, {Do: Check, Path: "/x"}}},
	},
	"no data is no user": {
		{Do: Auth, Scheme: "digest"}, {Do: WhoAmI},
	},
	"a null in an ACL": {
		{Do: SetACL, Path: "/", ACL: []ACL{{31, "world", "anyone"}, {1 << 20, "digest", null}}},
		{Do: SetACL, Path: "/", ACL: []ACL{{31, null, "x"}}},
		{Do: Create, Path: "/x", ACL: []ACL{{1, "auth", null}, {1, null, "a:b"}}},
		{Do: Create, Path: "/x", ACL: []ACL{{1, "auth", null}, {2, null, "a:b"}}},
		{Do: Multi, Subs: []Step{{Do: Create, Path: "/x", ACL: []ACL{{31, null, "x"}}}}},
	},
	"no ACL knows IPv6": {
		{Do: Create, Path: "/v6", ACL: []ACL{{31, "ip", "::1"}}},
		{Do: SetACL, Path: "/", ACL: []ACL{{31, "world", "anyone"}, {31, "ip", "2001:db8::/32"}}, Version: -1},
	},
	"a multiRead sets no watches": {
		{Do: Create, Path: "/read", ACL: everybody},
		{Do: MultiRead, Subs: []Step{{Do: GetChildren, Path: "/read", Watch: true}, {Do: GetData, Path: "/read", Watch: true}}},
		{On: 1, Do: Create, Path: "/read/x", ACL: everybody},
		{On: 1, Do: SetData, Path: "/read", Version: -1},
	},
	"what is no UTF-8, or is beyond U+FFFF, comes back as Java has read it": {
		{Do: SetWatches, Paths: [][]string{{"/\xc3"}, {"/\xff\xfe"}, {"/\xed\xa0\x80", "/😀", "/\xf0\x9f\x98", "/\xc3\xc3\xa9"}}},
		{Do: Sync, Path: "/\xc3/😀"},
	},
	"a null among the lists of watches ends what comes before it well": {
		{Do: SetWatches2, Paths: [][]string{{"/none"}, {}, {}, nil, nil}},
		{Do: SetWatches, Paths: [][]string{nil, {"/none"}, {"/none"}}},
	},
	"reads and writes do not mix": {
		{Do: Multi, Subs: []Step{{Do: SetData, Path: "/none", Version: -1}, {Do: GetData, Path: "/"}}},
		{Do: MultiRead, Subs: []Step{{Do: Check, Path: "/none"}}},
		{Do: MultiRead, Subs: []Step{{Do: GetData, Path: "/"}, {Do: Check, Path: "/"}}},
		{Do: MultiRead, Subs: []Step{{Do: Check, Path: "/"}, {Do: GetData, Path: "/"}}},
		{Do: MultiRead, Subs: []Step{{Do: Check, Path: "/"}, {Do: Create, Path: "/x"}}},
		{Do: MultiRead, Cut: 1},
		{Do: Multi, Cut: 1},
	},
	"two slashes are no path": {
		{Do: Create, Path: "//", ACL: everybody}, {Do: Create, Path: "///", ACL: everybody}, {Do: Delete, Path: "//", Version: -1},
	},
	"every byte but 0 is true": {
		{Do: Frame, Raw: []byte("\x00\x00\x03\xc7\x00\x00\x00\x16\x9d\xf2\xa6\x99\xa1\x3f\x21\xa6\xb4\x51\x86\x8d\xff\xda\x32")},
		{Do: Frame, Raw: []byte("\x00\x00\x03\xc8\x00\x00\x00\x03\x00\x00\x00\x01/\x07")},
	},
	"a null path in a multi uses up a zxid that no client sees": {
		{Do: Multi, Subs: []Step{{Do: Create, Path: "/x", ACL: everybody}, {Do: Create, Path: null, ACL: everybody}}},
		{Do: Multi, Subs: []Step{{Do: Delete, Path: null, Version: -1}}},
		{Do: SetData, Path: "/none"},
	},
	"lists of a negative length": {
		{Do: Frame, Raw: []byte("\x00\x00\x00\x60\x00\x00\x00\x65\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xfe\x80\x00\x00\x00\xf0\x00\x00\x00")},
	},
	"a null path elsewhere": {
		{Do: Create, Path: null, ACL: everybody},
		{Do: Create2, Path: null, ACL: everybody, Flags: 15},
		{Do: CreateTTL, Path: null, ACL: everybody, Flags: persistentTTL, TTL: -1},
		{Do: CreateContainer, Path: null, ACL: nil, Flags: container},
		{Do: Delete, Path: null},
		{Do: SetACL, Path: null, ACL: everybody, Version: -1},
		{Do: SetACL, Path: null, Version: -1},
		{Do: SetData, Path: null, Version: -1},
		{Do: Check, Path: null},
		{Do: GetACL, Path: null},
		{Do: GetChildren, Path: null, Watch: true},
		{Do: GetChildren2, Path: null},
		{Do: GetAllChildrenNumber, Path: null},
		{Do: CheckWatches, Path: null, Mode: 3},
		{Do: MultiRead, Subs: []Step{{Do: GetData, Path: null}, {Do: GetChildren, Path: null}}},
		{Do: Exists, Path: null, Watch: true},
		{Do: GetData, Path: null},
		{Do: GetEphemerals, Path: null},
		{Do: RemoveWatches, Path: null, Mode: 3},
		{Do: Sync, Path: null},
		{Do: SetData, Path: "/none"},
	},
	"a one-shot watch takes the place of a persistent one": {
		{Do: Create, Path: "/mode", ACL: everybody},
		{Do: AddWatch, Path: "/mode", Mode: 0},
		{Do: GetData, Path: "/mode", Watch: true},
		{On: 1, Do: SetData, Path: "/mode", Version: -1},
		{On: 1, Do: SetData, Path: "/mode", Version: -1},
		{On: 1, Do: Create, Path: "/mode/x", ACL: everybody},
	},
	"a client may ask for its own watches": {
		{Do: CheckWatches, Path: "/own", Mode: 3},
		{Do: Exists, Path: "/own", Watch: true},
		{Do: CheckWatches, Path: "/own", Mode: 3},
		{Do: CheckWatches, Path: "/own", Mode: 2},
		{Do: CheckWatches, Path: "/own", Mode: 1},
		{Do: RemoveWatches, Path: "/own", Mode: 1},
		{Do: RemoveWatches, Path: "/own", Mode: 2},
		{Do: RemoveWatches, Path: "/own", Mode: 2},
		{Do: CheckWatches, Path: "/own", Mode: 0},
	},
	"the prefix of ephemeral nodes is trimmed to see whether it means all of them": {
		{Do: Create, Path: "/trim", ACL: everybody, Flags: ephemeral},
		{Do: GetEphemerals, Path: "/\x00"},
		{Do: GetEphemerals, Path: " / "},
		{Do: GetEphemerals, Path: " "},
		{Do: GetEphemerals, Path: " /t"},
	},
	"a client without read permission learns nothing of a node": {
		{Do: Create, Path: "/secret", ACL: everybody},
		{Do: GetData, Path: "/secret", Watch: true},
		{Do: GetChildren, Path: "/secret", Watch: true},
		{On: 1, Do: SetACL, Path: "/secret", ACL: []ACL{{30, "world", "anyone"}}, Version: -1},
		{On: 1, Do: SetData, Path: "/secret", Version: -1},
		{On: 1, Do: Create, Path: "/secret/x", ACL: everybody},
	},
	"with the right id and another password a session loses its connection": {
		{Do: WhoAmI}, {On: 1, Do: WhoAmI}, {On: 1, Do: WrongPassword}, {On: 1, Do: WhoAmI},
	},
	"a client from the future is not answered": {
		{Do: WhoAmI}, {Do: Ahead}, {Do: WhoAmI},
	},
	"a frame may be as long as jute.maxbuffer": {
		{Do: SetData, Path: "/none", Size: maxFrame - 8 - 4 - 5 - 4 - 4, Version: -1},
		{Do: SetData, Path: "/none", Size: maxFrame - 8 - 4 - 5 - 4 - 3, Version: -1},
		{Do: Create, Path: "/large", Size: maxFrame - 100, ACL: everybody},
		{Do: GetData, Path: "/large"},
		{Do: Delete, Path: "/large", Version: -1},
	},
}

func TestQuirks(t *testing.T) {
	p, err := launchPair(t.Context(), oracle, embedded)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.close()) }()
	for _, about := range slices.Sorted(maps.Keys(quirks)) {
		t.Run(about, func(t *testing.T) {
			script := slices.Concat(quirks[about], Script{{Do: CloseSession}, {On: 1, Do: CloseSession}})
			for i, step := range script {
				if difference, _ := p.do(step); difference != "" {
					require.Fail(t, "the servers differ", "%s", &divergence{script[:i+1], difference})
				}
			}
		})
	}
}
