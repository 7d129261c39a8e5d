package doctor

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/doctor"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestOneServerThatIsWell(t *testing.T) {
	server, cfg := shared.Server(t), asAna(t)
	use(t, client(t, cfg), "cluster/orders")

	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.OK, "server", server.Addr(), "gives sessions, standalone")
	finds(t, r, doctor.OK, "version", server.Addr(), "runs ZooKeeper 3.")
	finds(t, r, doctor.Warning, "quorum", server.Addr(), "one server on its own")
	finds(t, r, doctor.OK, "session", server.Addr(), "grants the session timeout of 4s")
	finds(t, r, doctor.OK, "clock", "", "leader's clock")
	finds(t, r, doctor.OK, "access", cfg.Root, "none open to the world")
	finds(t, r, doctor.OK, "nodes", cfg.Root, "1 scope, 0 requests")
	none(t, r, doctor.Problem)
	require.Empty(t, leftovers(t, server, cfg.Root), "the doctor takes its nodes away")
}

func leftovers(t *testing.T, server *zkserver.Server, root string) []string {
	paths, err := server.Ephemerals(t.Context())
	require.NoError(t, err)
	return slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, root+"/") })
}

func TestEmbeddedServer(t *testing.T) {
	server := zktest.RunT(t)
	cfg := lock.Config{Servers: []string{server.Addr()}}
	use(t, client(t, cfg), "cluster/orders")
	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.OK, "server", server.Addr(), "gives sessions, standalone")
	finds(t, r, doctor.OK, "session", server.Addr(), "15s")
	finds(t, r, doctor.Warning, "access", "/lockkeeper", "no credentials are in use")
	none(t, r, doctor.Problem)
}

func TestReadOnlyWritesNothing(t *testing.T) {
	server := zktest.RunT(t)
	cfg := lock.Config{Servers: []string{server.Addr()}}
	use(t, client(t, cfg), "cluster/orders")
	before := len(server.Trace())
	r := examine(t, doctor.Options{Client: cfg, ReadOnly: true})
	finds(t, r, doctor.Skipped, "round_trips", "", "as was asked for")
	finds(t, r, doctor.Skipped, "clock", "", "nothing was written")
	require.Empty(t, writes(server.Trace()[before:]))

	before = len(server.Trace())
	examine(t, doctor.Options{Client: cfg})
	require.NotEmpty(t, writes(server.Trace()[before:]), "the test can see writes")
}

var write = regexp.MustCompile(`→ #\d+ (create|delete|set|multi)`)

func writes(trace []zktest.Exchange) (all []string) {
	for _, exchange := range trace {
		if text := exchange.String(); write.MatchString(text) && !strings.Contains(text, "setWatches") {
			all = append(all, text)
		}
	}
	return all
}

func TestNothingThereIsSaidInTime(t *testing.T) {
	const address = "127.0.0.1:1" // the kernel gives that port to no process
	r := examine(t, doctor.Options{Client: at(t, address)})
	finds(t, r, doctor.Problem, "server", address, "refused")
	finds(t, r, doctor.Problem, "server", "", "no server of ZooKeeper answers")
}

func TestListenerThatIsNoZooKeeperIsSaidInTime(t *testing.T) {
	port, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never speaks
	require.NoError(t, err)
	defer port.Close()

	r := examine(t, doctor.Options{Client: at(t, port.Addr().String()), Timeout: 5 * time.Second})
	finds(t, r, doctor.Problem, "server", port.Addr().String(), "gives no session")
}

func TestServerThatKeepsItsStateToItself(t *testing.T) {
	server := zktest.RunT(t, zktest.FourLetterWords("ruok"))
	r := examine(t, doctor.Options{Client: lock.Config{Servers: []string{server.Addr()}}})
	f := finds(t, r, doctor.Warning, "monitoring", server.Addr(), "executes no four-letter word")
	require.Contains(t, f.Do, "4lw.commands.whitelist")
	finds(t, r, doctor.Skipped, "version", server.Addr(), "not known")
	none(t, r, doctor.Problem)

	usual := zktest.RunT(t, zktest.FourLetterWords("srvr")) // what ZooKeeper does unless told otherwise
	r = examine(t, doctor.Options{Client: lock.Config{Servers: []string{usual.Addr()}}})
	finds(t, r, doctor.Warning, "monitoring", usual.Addr(), "does not execute mntr, conf")
	finds(t, r, doctor.OK, "version", usual.Addr(), "3.8.0")
}

func TestEnsembleWithOneDown(t *testing.T) {
	ensemble := zkserver.StartEnsemble(t)
	cfg := at(t, ensemble.Addrs()...)
	cfg.Auth = &lock.Digest{User: "ana", Password: "secret"}
	use(t, client(t, cfg), "cluster/orders")

	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.OK, "quorum", "", "3 voting servers, all there")
	finds(t, r, doctor.OK, "clock", "", "the clocks of 3 servers")
	none(t, r, doctor.Problem, doctor.Warning)

	one := cfg
	one.Servers = cfg.Servers[:1]
	finds(t, examine(t, doctor.Options{Client: one}), doctor.Warning, "quorum", "", "names 1 server of an ensemble of 3")

	followers, err := ensemble.Followers(t.Context())
	require.NoError(t, err)
	require.NoError(t, followers[0].Kill())
	until := func(what string, met func(doctor.Finding) bool) {
		harness.Eventually(t, func() bool {
			r = examine(t, doctor.Options{Client: cfg, Timeout: 3 * time.Second})
			return slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Result == doctor.Problem && met(f) })
		}, "%s", what)
	}
	until("the leader notices", func(f doctor.Finding) bool { return f.Check == "quorum" })
	finds(t, r, doctor.Problem, "server", followers[0].Addr(), "does not accept connections")
	finds(t, r, doctor.Problem, "quorum", "", "2 of 3 voting servers are there: when one more fails, no lock is granted")

	require.NoError(t, followers[1].Kill())
	leader := ensemble.Servers()[0]
	for _, s := range ensemble.Servers() {
		if s.Alive() {
			leader = s
		}
	}
	until("the last one serves no client", func(f doctor.Finding) bool { return f.Check == "server" && f.Subject == leader.Addr() })
	finds(t, r, doctor.Problem, "server", leader.Addr(), "serves no requests")
	finds(t, r, doctor.Problem, "server", "", "no server of ZooKeeper answers")
}

func TestServersOfDifferentEnsemblesInOneConnectString(t *testing.T) {
	one, other := zktest.RunT(t), zktest.RunT(t)
	r := examine(t, doctor.Options{Client: lock.Config{Servers: []string{one.Addr(), other.Addr()}}})
	finds(t, r, doctor.Problem, "quorum", "", "two clients can hold the same lock")
}

func TestSessionTimeoutThatTheServerDoesNotGrant(t *testing.T) {
	server := shared.Server(t)
	cfg := at(t, server.Addr())
	cfg.SessionTimeout = 15 * time.Second
	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.Warning, "session", server.Addr(), "4s in place of 15s: it allows 400ms to 4s, with a tick of 200ms")

	cfg.SessionTimeout = 400 * time.Millisecond
	r = examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.Warning, "session", server.Addr(), "a holder keeps 33ms to the end of its session of 400ms, and with a tick of 200ms it needs 131ms")
}
