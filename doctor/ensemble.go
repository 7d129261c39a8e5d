package doctor

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// checkServers says of each server whether it is there.
func checkServers(f *findings, x *facts, o Options) {
	for _, s := range x.servers {
		switch {
		case s.refused != nil:
			f.problem(s.address, fmt.Sprintf("does not accept connections: %v", s.refused),
				"start the server, or check its address and what stands between it and this machine")
		case s.withoutQuorum():
			f.problem(s.address, "runs, but serves no requests: it is not connected to a majority of its ensemble",
				"start the other servers, and check that they reach each other (ports 2888 and 3888, as a rule)")
		case s.session != nil:
			f.problem(s.address, fmt.Sprintf("accepts connections, but gives no session: %v", s.session),
				"look into the log of the server; check that the port is ZooKeeper's"+tlsHint(o))
		default:
			f.ok(s.address, served(s))
		}
	}
	if !x.answers() {
		f.problem("", "no server of ZooKeeper answers: no lock can be taken, and what is held is lost when its session ends",
			"the checks that ask ZooKeeper were left out; begin with the servers above")
	}
}

func tlsHint(o Options) string {
	if o.Client.TLS != nil {
		return "; with TLS it has to be its secureClientPort, and its certificate has to name the host"
	}
	return "; its secureClientPort needs TLS (--zk-tls)"
}

func served(s *server) string {
	parts := []string{"gives sessions"}
	if state := s.figures["server_state"]; state != "" {
		parts = append(parts, state)
	}
	if n, ok := s.figures.number("num_alive_connections"); ok {
		parts = append(parts, words.Count(int(n), "connection"))
	}
	return strings.Join(parts, ", ")
}

// checkMonitoring says what could not be seen because a server keeps it to itself.
func checkMonitoring(f *findings, x *facts, o Options) {
	for _, s := range x.servers {
		if !s.up() && !s.withoutQuorum() {
			continue
		}
		switch {
		case s.source == fromNone:
			f.warn(s.address, fmt.Sprintf("keeps its state to itself: it executes no four-letter word, "+
				"and no admin server of its answers at port %d", o.AdminPort), "write 4lw.commands.whitelist=srvr, mntr, conf, "+
				"cons into its zoo.cfg, or admin.enableServer=true (then name the port with --admin-port); restart it")
		case s.source == fromWords && len(s.closed) > 0:
			f.warn(s.address,
				fmt.Sprintf("does not execute %s, and no admin server of its answers at port %d: only a part is known",
					strings.Join(s.closed, ", "), o.AdminPort),
				"write 4lw.commands.whitelist=srvr, mntr, conf, cons into its zoo.cfg, "+
					"or admin.enableServer=true (then name the port with --admin-port); restart it")
		default:
			f.ok(s.address, "tells its state through "+
				map[source]string{fromWords: "four-letter words", fromAdmin: "its admin server"}[s.source])
		}
	}
}

// A version is major, minor and patch.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func (v version) before(major, minor, patch int) bool {
	return slices.Compare(v[:], []int{major, minor, patch}) < 0
}

// parseVersion reads "3.8.0-5a02a05, built on 2022-02-25 08:49 UTC" and
// "3.4.14-4c25d48, built on 03/06/2019 16:18 GMT".
func parseVersion(text string) (v version, built time.Time, ok bool) {
	release, when, _ := strings.Cut(text, ", built on ")
	number, _, _ := strings.Cut(release, "-")
	parts := strings.Split(number, ".")
	if len(parts) != 3 {
		return v, built, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return v, built, false
		}
		v[i] = n
	}
	day, _, _ := strings.Cut(when, " ")
	for _, layout := range []string{"2006-01-02", "01/02/2006"} {
		if t, err := time.Parse(layout, day); err == nil {
			built = t
		}
	}
	return v, built, true
}

// checkVersions: Lockkeeper needs container nodes, of 3.5.3; releases before 3.8
// get no corrections any more.
func checkVersions(f *findings, x *facts, _ Options) {
	seen := map[version][]string{}
	for _, s := range x.servers {
		text := s.figures["version"]
		v, built, ok := parseVersion(text)
		switch {
		case text == "" && (s.up() || s.withoutQuorum()):
			f.skip(s.address, "its version is not known", "")
			continue
		case text == "":
			continue
		case !ok:
			f.skip(s.address, fmt.Sprintf("its version is not understood: %q", text), "")
			continue
		}
		seen[v] = append(seen[v], s.address)
		// the day of 3.8.4; distributions correct what they have
		patched := built.After(time.Date(2024, 3, 15, 0, 0, 0, 0, time.UTC))
		switch {
		case v.before(3, 5, 3):
			f.problem(s.address,
				fmt.Sprintf("runs ZooKeeper %s, which has no container nodes: the classic recipes fail on it", v),
				"update it to 3.8.4, 3.9.2 or later")
		case v.before(3, 8, 0):
			f.warn(s.address, fmt.Sprintf("runs ZooKeeper %s, which gets no corrections any more", v),
				"update it to 3.8.4, 3.9.2 or later, one server after the other")
		case (v.before(3, 8, 4) || !v.before(3, 9, 0) && v.before(3, 9, 2)) && !patched:
			f.warn(s.address, fmt.Sprintf("runs ZooKeeper %s, in which watches tell strangers the names of nodes that they "+
				"may not read (CVE-2024-23944)", v), "update it to 3.8.4, 3.9.2 or later, one server after the other")
		default:
			f.ok(s.address, fmt.Sprintf("runs ZooKeeper %s", v))
		}
	}
	if len(seen) > 1 {
		var parts []string
		for v, servers := range seen {
			parts = append(parts, fmt.Sprintf("%s at %s", v, strings.Join(servers, ", ")))
		}
		slices.Sort(parts)
		f.warn("", "the servers run different versions: "+strings.Join(parts, "; "), "finish the update")
	}
}

// checkQuorum looks at the servers together.
func checkQuorum(f *findings, x *facts, _ Options) {
	if len(x.servers) == 0 || !x.answers() {
		return // said already
	}
	states := map[string][]string{}
	known := true
	for _, s := range x.servers {
		state := s.figures["server_state"]
		if state == "" && s.up() {
			known = false
		}
		states[state] = append(states[state], s.address)
	}
	alone, leaders := states["standalone"], states["leader"]
	switch {
	case len(alone) > 1, len(alone) == 1 && len(leaders)+len(states["follower"])+len(states["observer"]) > 0:
		f.problem("",
			fmt.Sprintf("%s stands alone, beside others in the same connect string: two clients can hold the same lock",
				strings.Join(alone, " and ")),
			"name the servers of one ensemble, and nothing else, in the connect string of every client")
		return
	case len(alone) == 1:
		f.warn(alone[0], "one server on its own: while it is down, no lock is granted, and its disk is the only copy",
			"run an ensemble of three servers in production")
		return
	case len(leaders) > 1:
		f.problem("", fmt.Sprintf("%s lead at the same time: either they belong to different ensembles, "+
			"or one has lost its followers just now", strings.Join(leaders, " and ")),
			"run the doctor again; if they still do, correct the connect string of every client")
		return
	}
	checkVoters(f, x, leaders)
	if len(leaders) == 0 {
		found := "which server leads is not known: none in the connect string says so"
		if known && len(x.members) <= len(x.servers) && len(states[""]) == 0 {
			found = "no server of the connect string leads"
		}
		f.skip("", found, "")
	}
	checkConnectString(f, x)
}

// checkVoters compares those who vote with those who should.
func checkVoters(f *findings, x *facts, leaders []string) {
	voters := 0
	for _, m := range x.members {
		if !m.Observer {
			voters++
		}
	}
	leader := find(x.servers, leaders)
	if leader != nil {
		if n, ok := leader.figures.number("quorum_size"); ok && voters == 0 {
			voters = int(n)
		}
	}
	if voters == 0 {
		f.skip("", "how many servers vote is not known", "")
		return
	}
	if voters%2 == 0 {
		f.warn("", fmt.Sprintf("%d servers vote: no more of them may fail than of %d", voters, voters-1),
			"add a server, or make one an observer")
	}
	synced, ok := 0.0, false
	if leader != nil {
		synced, ok = leader.figures.number("synced_followers")
	}
	if !ok {
		if voters%2 == 1 {
			f.ok("", fmt.Sprintf("%d servers vote; how many follow the leader is not known", voters))
		}
		return
	}
	followers, learners := synced, synced
	if n, ok := leader.figures.number("followers"); ok { // up to 3.5
		followers = n
	}
	if n, ok := leader.figures.number("learners"); ok { // observers, too
		learners = n
		if observers, ok := leader.figures.number("synced_observers"); ok {
			learners -= observers
		}
	}
	if behind := max(followers, learners) - synced; behind > 0 {
		f.warn(leader.address, fmt.Sprintf("%.0f of its followers have not caught up", behind),
			"wait a moment and run the doctor again; if it stays, look at the disks and the network of the followers")
	}
	alive := int(synced) + 1
	switch spare := alive - (voters/2 + 1); {
	case alive < voters:
		f.problem("", fmt.Sprintf("%d of %d voting servers are there: %s", alive, voters, spareWords(spare)),
			"start the missing ones")
	default:
		f.ok("", fmt.Sprintf("%s, all there, led by %s: %s",
			words.Count(voters, "voting server"), leader.address, spareWords(spare)))
	}
}

func spareWords(spare int) string {
	switch {
	case spare <= 0:
		return "when one more fails, no lock is granted"
	case spare == 1:
		return "one may fail"
	}
	return fmt.Sprintf("%d may fail", spare)
}

func find(servers []*server, addresses []string) *server {
	for _, s := range servers {
		if slices.Contains(addresses, s.address) {
			return s
		}
	}
	return nil
}

// checkConnectString: clients go on while one of the servers that they name lives.
func checkConnectString(f *findings, x *facts) {
	if n := len(x.members); n > len(x.servers) {
		hosts := make([]string, n)
		for i, m := range x.members {
			hosts[i] = m.Host
			if _, port, err := net.SplitHostPort(m.Client); err == nil {
				hosts[i] = net.JoinHostPort(m.Host, port)
			}
		}
		f.warn("", fmt.Sprintf("the connect string names %s of an ensemble of %d: clients are cut off when those fail",
			words.Count(len(x.servers), "server"), n),
			"name all of them, which are at "+strings.Join(hosts, ", "))
	}
}
