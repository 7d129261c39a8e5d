package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/doctor"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// named is a configuration in which ana operates, keeper contends, and rita reads.
func named(t *testing.T, user string) lock.Config {
	cfg := at(t, shared.Server(t).Addr())
	cfg.Auth = &lock.Digest{User: user, Password: "secret"}
	cfg.Operators = []string{lock.DigestID("ana", "secret")}
	cfg.Contenders = []string{lock.DigestID("keeper", "secret")}
	cfg.Readers = []string{lock.DigestID("rita", "secret")}
	return cfg
}

func TestACLsThatAreNotThoseOfTheConfiguration(t *testing.T) {
	cfg := named(t, "ana")
	require.NoError(t, client(t, cfg).MakeRoot(t.Context()))
	keeper := cfg
	keeper.Auth = &lock.Digest{User: "keeper", Password: "secret"}
	use(t, client(t, keeper), "cluster/orders")
	rita := cfg
	rita.Auth = &lock.Digest{User: "rita", Password: "secret"}
	for _, as := range []lock.Config{cfg, keeper, rita} { // also for those from whom hashes are hidden
		r := examine(t, doctor.Options{Client: as})
		finds(t, r, doctor.OK, "access", cfg.Root, "each with the ACL that the configuration gives it")
	}

	// given lists that somebody has changed, and a room that is gone
	conn := shell(t, shared.Server(t).Addr(), "ana")
	ana, worker := zk.DigestACL(zk.PermAll, "ana", "secret"), zk.DigestACL(zk.PermAll, "keeper", "secret")
	for node, acl := range map[string][]zk.ACL{
		"":           append(ana, worker...),
		"/locks":     ana,
		"/audit":     append(ana, zk.WorldACL(zk.PermRead)...),
		"/audit/log": append(ana, worker...),
		"/approvals": append(ana, worker...),
	} {
		_, err := conn.SetACL(cfg.Root+node, acl, -1)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Delete(cfg.Root+"/clock", -1))

	// when the doctor looks
	r := examine(t, doctor.Options{Client: cfg})

	// then it names them, and what it says to do sets them right
	finds(t, r, doctor.Problem, "access", cfg.Root, "there is digest:keeper:cdrwa")
	finds(t, r, doctor.Problem, "access", cfg.Root+"/locks", "digest:keeper:cdrw is missing")
	finds(t, r, doctor.Problem, "access", cfg.Root+"/audit", "there is world:anyone:r")
	missing := finds(t, r, doctor.Problem, "access", cfg.Root+"/clock", "not there")
	require.Contains(t, missing.Do, "lockkeeper init")
	done := 0
	for _, f := range r.Findings {
		if command, ok := strings.CutPrefix(f.Do, "setAcl "); ok && f.Check == "access" {
			setACL(t, conn, command)
			done++
		}
	}
	require.Equal(t, 5, done)
	require.NoError(t, client(t, cfg).MakeRoot(t.Context()))
	finds(t, examine(t, doctor.Options{Client: cfg}), doctor.OK, "access", cfg.Root, "each with the ACL that the configuration gives it")
}

// setACL does what ZooKeeper's shell does.
func setACL(t *testing.T, conn *zk.Conn, command string) {
	t.Helper()
	command, all := strings.CutPrefix(command, "-R ")
	node, list, _ := strings.Cut(command, " ")
	var acl []zk.ACL
	for entry := range strings.SplitSeq(list, ",") {
		at := strings.LastIndex(entry, ":")
		scheme, id, _ := strings.Cut(entry[:at], ":")
		a := zk.ACL{Scheme: scheme, ID: id}
		for _, letter := range entry[at+1:] {
			a.Perms |= map[rune]int32{'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin}[letter]
		}
		acl = append(acl, a)
	}
	var set func(node string)
	set = func(node string) {
		_, err := conn.SetACL(node, acl, -1)
		require.NoError(t, err)
		if all {
			names, _, err := conn.Children(node)
			require.NoError(t, err)
			for _, name := range names {
				set(node + "/" + name)
			}
		}
	}
	set(node)
}

func TestEmergencyRequestsWithoutAnOverrideInForce(t *testing.T) {
	cfg := named(t, "ana")
	ana := client(t, cfg)
	hold := func(id string) override.Override {
		return override.Override{ID: id, Kind: override.Hold, Match: override.Match{Scope: "cluster/orders"}, Until: time.Now().Add(time.Hour).UTC(), By: "ana", Reason: "disk full"}
	}
	_, err := ana.Overrides().Apply(t.Context(), hold("INC-1"))
	require.NoError(t, err)
	f := &harness.Fixture{TB: t, History: harness.NewHistory(t)}
	urgently := func(id string, vouch func(context.Context, lock.Mark) error) *harness.Request {
		return f.Acquire(f.Lock(ana, "cluster/orders"), "ana", harness.At(priority.Emergency), func(r *lock.Request) {
			r.Override, r.Vouch = &lock.Mark{ID: id, By: "ana", Reason: "disk full"}, vouch
		})
	}
	finds(t, examine(t, doctor.Options{Client: cfg}), doctor.OK, "emergency", "", "no request is at emergency priority")
	urgently("INC-1", nil).Granted()
	finds(t, examine(t, doctor.Options{Client: cfg}), doctor.OK, "emergency", cfg.Root+"/locks/", "by the override INC-1 on the board")
	urgently("INC-2", func(context.Context, lock.Mark) error { return nil }).Queued() // a program that lies

	r := examine(t, doctor.Options{Client: cfg})

	found := finds(t, r, doctor.Problem, "emergency", cfg.Root+"/locks/", `waits for the lock "cluster/orders" at emergency priority: "ana", host `)
	require.Regexp(t, `pid \d+, session 0x[0-9a-f]+, without an override in force: it names INC-2, which is not on the board`, found.Found)
	require.Contains(t, found.Do, "(delete "+found.Subject+")")
	finds(t, r, doctor.OK, "emergency", cfg.Root+"/locks/", "by the override INC-1 on the board")

	_, err = ana.Overrides().Clear(t.Context(), "INC-1")
	require.NoError(t, err)
	finds(t, examine(t, doctor.Options{Client: cfg}), doctor.Warning, "emergency", cfg.Root+"/locks/", "it names INC-1, which is not on the board")
}

func TestSecretsThatOthersMayRead(t *testing.T) {
	cfg := at(t, shared.Server(t).Addr())
	dir := t.TempDir()
	open, closed := filepath.Join(dir, "open.digest"), filepath.Join(dir, "closed.key")
	require.NoError(t, os.WriteFile(open, nil, 0o600))
	require.NoError(t, os.Chmod(open, 0o644))
	require.NoError(t, os.WriteFile(closed, nil, 0o600))
	r := examine(t, doctor.Options{Client: cfg, Secrets: []string{open, closed, filepath.Join(dir, "none")}})
	f := finds(t, r, doctor.Warning, "secrets", open, "others may read or change it (-rw-r--r--)")
	require.Equal(t, "chmod 600 "+open, f.Do)
	finds(t, r, doctor.OK, "secrets", closed, "is for its owner alone")
}

// A user with the credentials of an entry of the lists needs no lists, and learns what
// is missing where an older program has made the root.
func TestListsThatAreOrAreNotInZooKeeper(t *testing.T) {
	cfg := named(t, "ana")
	require.NoError(t, client(t, cfg).MakeRoot(t.Context()))
	alone := cfg
	alone.Operators, alone.Contenders, alone.Readers = nil, nil, nil
	finds(t, examine(t, doctor.Options{Client: alone}), doctor.OK, "access", cfg.Root, "each with the ACL that the configuration gives it")

	conn := shell(t, shared.Server(t).Addr(), "ana")
	require.NoError(t, conn.Delete(cfg.Root+"/identities", -1))
	f := finds(t, examine(t, doctor.Options{Client: cfg}), doctor.Problem, "access", cfg.Root+"/identities", "not there")
	require.Contains(t, f.Do, "lockkeeper init")
	f = finds(t, examine(t, doctor.Options{Client: alone}), doctor.Problem, "access", cfg.Root, "this client makes no nodes here: ")
	require.Contains(t, f.Do, "lockkeeper init")

	other := cfg
	other.Readers = nil
	require.NoError(t, client(t, cfg).MakeRoot(t.Context()))
	finds(t, examine(t, doctor.Options{Client: other}), doctor.Problem, "access", cfg.Root, "it has other readers (digest:rita) than this client was given (none)")
}
