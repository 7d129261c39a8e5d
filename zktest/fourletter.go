package zktest

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// version is the release whose behaviour this server has.
const version = "3.8.0-zktest, built on 2024-12-29 17:54 UTC"

// answerWord answers an administrator's command, if the first four bytes of a
// connection are one, and ends the connection.
func (s *Server) answerWord(c *conn, word string) bool {
	answer, known := words[word]
	if !known {
		return false
	}
	if s.faults.reachable(s.ending, c.names...) != nil {
		return true // closed
	}
	s.mu.Lock()
	s.count(c)
	var text string
	switch {
	case s.opts.words == nil || s.opts.words[word]:
		var b strings.Builder
		answer(s, &b)
		text = b.String()
	default:
		text = word + " is not executed because it is not in the whitelist.\n"
	}
	s.leave(c)
	s.mu.Unlock()
	c.gate.close()
	c.out.put([]byte(text))
	c.finish()
	return true
}

// words are the commands, by name. The caller holds the server's lock.
var words = map[string]func(*Server, io.Writer){
	"conf": (*Server).writeConf,
	"cons": func(s *Server, w io.Writer) { s.writeConns(w, true); line(w, "") },
	"crst": func(s *Server, w io.Writer) {
		for c := range s.conns {
			c.seen = traffic{}
		}
		line(w, "Connection stats reset.")
	},
	"dirs": func(_ *Server, w io.Writer) { line(w, "datadir_size: 0\nlogdir_size: 0") },
	"dump": (*Server).writeDump,
	"envi": (*Server).writeEnvironment,
	"gtmk": func(_ *Server, w io.Writer) { _, _ = io.WriteString(w, "306") },
	"isro": func(_ *Server, w io.Writer) { _, _ = io.WriteString(w, "rw") },
	"mntr": (*Server).writeMonitor,
	"ruok": func(_ *Server, w io.Writer) { _, _ = io.WriteString(w, "imok") },
	"srst": func(s *Server, w io.Writer) { s.counted = counters{}; line(w, "Server stats reset.") },
	"srvr": (*Server).writeServer,
	"stat": func(s *Server, w io.Writer) {
		line(w, "Zookeeper version: "+version)
		line(w, "Clients:")
		s.writeConns(w, false)
		line(w, "")
		s.writeStats(w)
	},
	"wchc": (*Server).writeWatchesByClient,
	"wchp": (*Server).writeWatchesByPath,
	"wchs": func(s *Server, w io.Writer) {
		paths, clients, total := s.dataWatches()
		line(w, "%d connections watching %d paths", len(clients), len(paths))
		line(w, "Total watches:%d", total)
	},
}

func line(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }

func (s *Server) writeServer(w io.Writer) {
	line(w, "Zookeeper version: "+version)
	s.writeStats(w)
}

func (s *Server) writeStats(w io.Writer) {
	line(w, "Latency min/avg/max: 0/0.0/0")
	line(w, "Received: %d", s.counted.received)
	line(w, "Sent: %d", s.counted.sent)
	line(w, "Connections: %d", len(s.conns))
	line(w, "Outstanding: 0")
	line(w, "Zxid: 0x%x", s.leader.zxid)
	line(w, "Mode: %s", s.mode())
	line(w, "Node count: %d", s.nodeCount())
}

func (s *Server) mode() string {
	if s.member == nil {
		return "standalone"
	}
	return s.member.mode()
}

// nodeCount counts the root twice, as ZooKeeper does.
func (s *Server) nodeCount() int { return s.leader.tree.Len() + 1 }

func (s *Server) writeConns(w io.Writer, details bool) {
	for c := range s.conns {
		text := fmt.Sprintf(" /%s[%d](queued=0,recved=%d,sent=%d",
			c.nc.RemoteAddr(), min(c.seen.sent, 1), c.seen.received, c.seen.sent)
		if x := c.session; details && x != nil {
			text += fmt.Sprintf(",sid=0x%x,lop=%s,est=%d,to=%d,lcxid=0x%x,lzxid=0x%x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0",
				x.id, lastOp(c.seen.last), s.clock.start.UnixMilli(), x.timeout.Milliseconds(),
				uint32(c.seen.lastXid), c.seen.lastZxid)
		}
		line(w, "%s)", text)
	}
}

// lastOp is how the server abbreviates an operation.
func lastOp(op zkwire.Op) string {
	switch op {
	case zkwire.OpPing:
		return "PING"
	case zkwire.OpGetData:
		return "GETD"
	case zkwire.OpGetChildren, zkwire.OpGetChildren2:
		return "GETC"
	case 0:
		return "SESS"
	}
	if name := strings.ToUpper(op.String()); len(name) >= 4 {
		return name[:4]
	}
	return "NA"
}

func (s *Server) writeConf(w io.Writer) {
	_, port, _ := net.SplitHostPort(s.listeners[0].address)
	line(w, "clientPort=%s", port)
	line(w, "secureClientPort=-1")
	line(w, "dataDir=%s", s.opts.dataDir)
	line(w, "dataDirSize=0")
	line(w, "dataLogDir=%s", s.opts.dataDir)
	line(w, "dataLogSize=0")
	line(w, "tickTime=%d", s.opts.tick.Milliseconds())
	line(w, "maxClientCnxns=0")
	line(w, "minSessionTimeout=%d", s.opts.minTimeout.Milliseconds())
	line(w, "maxSessionTimeout=%d", s.opts.maxTimeout.Milliseconds())
	line(w, "clientPortListenBacklog=-1")
	line(w, "serverId=0")
}

func (s *Server) writeEnvironment(w io.Writer) {
	line(w, "Environment:")
	line(w, "zookeeper.version=%s", version)
	line(w, "host.name=localhost")
	line(w, "java.version=none")
}

func (s *Server) writeMonitor(w io.Writer) {
	ephemerals := 0
	for _, id := range s.leader.tree.Owners() {
		ephemerals += len(s.leader.tree.Ephemerals(id))
	}
	_, _, watches := s.dataWatches()
	s.eachReplica(func(r *replica) { r.watches.Each(true, func(string, *conn, tree.Mode) { watches++ }) })
	for _, pair := range []struct {
		name  string
		value any
	}{
		{"version", version},
		{"server_state", "standalone"},
		{"ephemerals_count", ephemerals},
		{"num_alive_connections", len(s.conns)},
		{"avg_latency", "0.0"},
		{"outstanding_requests", 0},
		{"znode_count", s.nodeCount()},
		{"global_sessions", len(s.sessions)},
		{"packets_sent", s.counted.sent},
		{"packets_received", s.counted.received},
		{"watch_count", watches},
		{"min_latency", 0},
		{"approximate_data_size", s.leader.tree.DataSize()},
		{"local_sessions", 0},
		{"uptime", s.clock.elapsed().Milliseconds()},
		{"max_latency", 0},
	} {
		line(w, "zk_%s\t%v", pair.name, pair.value)
	}
}

func (s *Server) writeDump(w io.Writer) {
	line(w, "SessionTracker dump:")
	byExpiry := make(map[time.Duration][]int64)
	for _, x := range s.sessions {
		byExpiry[x.expires] = append(byExpiry[x.expires], x.id)
	}
	line(w, "Session Sets (%d)/(%d):", len(byExpiry), len(s.sessions))
	for at, ids := range byExpiry {
		line(w, "%d expire at %s:", len(ids), s.clock.start.Add(at).UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
		slices.Sort(ids)
		for _, id := range ids {
			line(w, "\t0x%x", id)
		}
	}
	line(w, "ephemeral nodes dump:")
	owners := s.leader.tree.Owners()
	line(w, "Sessions with Ephemerals (%d):", len(owners))
	for _, id := range owners {
		line(w, "0x%x:", id)
		for _, path := range s.leader.tree.Ephemerals(id) {
			line(w, "\t%s", path)
		}
	}
	line(w, "Connections dump:")
	line(w, "Connections Sets (1)/(%d):", len(s.conns))
	line(w, "%d expire at %s:", len(s.conns), s.clock.start.UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	for c := range s.conns {
		id := int64(0)
		if c.session != nil {
			id = c.session.id
		}
		line(w, "\tip: /%s sessionId: 0x%x", c.nc.RemoteAddr(), id)
	}
}

// dataWatches are what ZooKeeper counts: watches for children are left out.
func (s *Server) dataWatches() (byPath map[string][]int64, byClient map[int64][]string, total int) {
	byPath, byClient = make(map[string][]int64), make(map[int64][]string)
	s.eachReplica(func(r *replica) {
		r.watches.Each(false, func(path string, by *conn, _ tree.Mode) {
			byPath[path] = append(byPath[path], by.session.id)
			byClient[by.session.id] = append(byClient[by.session.id], path)
			total++
		})
	})
	return byPath, byClient, total
}

func (s *Server) writeWatchesByPath(w io.Writer) {
	paths, _, _ := s.dataWatches()
	for path, clients := range paths {
		line(w, "%s", path)
		for _, id := range clients {
			line(w, "\t0x%x", id)
		}
	}
	line(w, "")
}

func (s *Server) writeWatchesByClient(w io.Writer) {
	_, clients, _ := s.dataWatches()
	for id, paths := range clients {
		line(w, "0x%x", id)
		for _, path := range paths {
			line(w, "\t%s", path)
		}
	}
	line(w, "")
}
