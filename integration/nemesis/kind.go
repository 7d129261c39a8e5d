package nemesis

import "slices"

// Kind is a kind of fault.
type Kind string

// The kinds of faults of servers. One of them plays at a time.
const (
	ServerKill   Kind = "server-kill"   // kill -9, started again
	LeaderKill   Kind = "leader-kill"   // the leader of that moment
	MajorityKill Kind = "majority-kill" // two at once, no quorum
	AllRestart   Kind = "all-restart"   // kill -9 of all three
	ServerPause  Kind = "server-pause"  // SIGSTOP for longer than the session timeout, then SIGCONT
	LeaderPause  Kind = "leader-pause"

	LeaderPartition   Kind = "leader-partition"   // the leader and its followers do not hear each other
	FollowerPartition Kind = "follower-partition" // one follower and the others do not
	LeaderMute        Kind = "leader-mute"        // the leader hears its followers, and is not heard
	LeaderTrap        Kind = "leader-trap"        // leader-partition, while one client reaches the leader alone
	PeersSlow         Kind = "peers-slow"         // delay and jitter between the servers

	ServerClock Kind = "server-clock" // the wall clock of a server steps, the leader's half of the time
	DiskFull    Kind = "disk-full"    // a server cannot write; it is started again when there is space
)

// The kinds of faults of the follower that serves a client, 0 to 2 ticks after it has answered a request that
// went through the leader. A follower tells the leader every half tick which sessions have been heard of:
// what it has not told is lost with it. See Step.Reach for where the client can go.
const (
	FollowerKillAcked      Kind = "follower-kill-acked"      // kill -9, started again
	FollowerPauseAcked     Kind = "follower-pause-acked"     // SIGSTOP for longer than the session timeout, then SIGCONT
	FollowerPartitionAcked Kind = "follower-partition-acked" // it and the other servers do not hear each other
)

// The kinds of faults of a client's network. Those called link concern all three links of the client, or one.
const (
	LinkCut       Kind = "link-cut"       // connections are reset, new ones refused
	LinkReset     Kind = "link-reset"     // connections are reset once, new ones let in
	LinkRefuse    Kind = "link-refuse"    // new connections are refused
	LinkHalfOpen  Kind = "link-halfopen"  // the server sees the connection end, the client does not
	LinkBlackhole Kind = "link-blackhole" // both believe they are connected, nothing arrives
	LinkDeaf      Kind = "link-deaf"      // what the client sends is lost
	LinkMute      Kind = "link-mute"      // what the server sends is lost
	LinkStall     Kind = "link-stall"     // what is sent arrives when the fault is over
	LinkSlow      Kind = "link-slow"      // delay and jitter
	LeaderCutOff  Kind = "leader-cutoff"  // the client cannot reach the leader

	ReplyDrop   Kind = "reply-drop"   // some writes are done, and the connection ends before their reply
	RequestDrop Kind = "request-drop" // some writes are not done, and the connection ends

	SessionExpire  Kind = "session-expire"  // an administrator closes the session
	SessionsExpire Kind = "sessions-expire" // of several clients at once
)

// The kinds of faults of a client's process; see Processes.
const (
	ClientKill  Kind = "client-kill"  // kill -9
	ClientPause Kind = "client-pause" // SIGSTOP, mostly for longer than the session timeout, then SIGCONT
	ClientClock Kind = "client-clock" // its wall clock steps
)

// All returns every kind.
func All() []Kind {
	return slices.Concat(
		[]Kind{
			ServerKill, LeaderKill, MajorityKill, AllRestart, ServerPause, LeaderPause,
			LeaderPartition, FollowerPartition, LeaderMute, LeaderTrap, PeersSlow, ServerClock, DiskFull,
			FollowerKillAcked, FollowerPauseAcked, FollowerPartitionAcked,
		},
		[]Kind{
			LinkCut, LinkReset, LinkRefuse, LinkHalfOpen, LinkBlackhole, LinkDeaf, LinkMute, LinkStall, LinkSlow,
			LeaderCutOff, ReplyDrop, RequestDrop, SessionExpire, SessionsExpire,
		},
		[]Kind{ClientKill, ClientPause, ClientClock},
	)
}

// aims are what the victims of a kind are.
type aim int

const (
	atNothing     aim = iota
	atServer          // the one of the step, else a drawn one
	atLeader          // of the moment
	atFollower        // likewise
	atMajority        // two servers
	atServers         // all of them
	atClient          // the one of the step
	atClients         // several
	atLink            // a client, and a server or all
	atLeaderLink      // a client and the leader
	atServing         // a client and the follower that serves it, which the strike finds
	atSession         // a client's of the moment
	atSessions        // several clients'
	atLeaderOrOne     // the server of the step, else the leader
)

// span is how long a kind of fault lasts.
type span int

const (
	free       span = iota // around Options.Hold
	instant                // it is over when it is done
	overlong               // longer than the session timeout
	mostlyLong             // longer than it three times out of four
	brief                  // less than the session timeout
)

// trait is what is fixed about a kind.
type trait struct {
	aim  aim
	span span
}

func (k Kind) trait() trait { //nolint:cyclop // a table: one case for each kind
	switch k {
	case ServerKill:
		return trait{atServer, free}
	case LeaderKill:
		return trait{atLeader, free}
	case MajorityKill:
		return trait{atMajority, brief}
	case AllRestart:
		return trait{atServers, instant}
	case ServerPause:
		return trait{atServer, overlong}
	case LeaderPause:
		return trait{atLeader, overlong}
	case LeaderPartition, LeaderMute:
		return trait{atLeader, overlong}
	case LeaderTrap:
		return trait{atLeaderLink, overlong}
	case FollowerPartition:
		return trait{atFollower, overlong}
	case FollowerKillAcked, FollowerPauseAcked, FollowerPartitionAcked:
		return trait{atServing, overlong}
	case PeersSlow:
		return trait{atServers, free}
	case ServerClock:
		return trait{atLeaderOrOne, free}
	case DiskFull:
		return trait{atServer, free}
	case LinkCut, LinkRefuse, LinkSlow:
		return trait{atLink, free}
	case LinkReset:
		return trait{atLink, instant}
	case LinkHalfOpen, LinkBlackhole, LinkDeaf, LinkMute, LinkStall:
		return trait{atLink, mostlyLong}
	case LeaderCutOff:
		return trait{atLeaderLink, free}
	case ReplyDrop, RequestDrop:
		return trait{atClient, free}
	case SessionExpire:
		return trait{atSession, instant}
	case SessionsExpire:
		return trait{atSessions, instant}
	case ClientKill:
		return trait{atClient, instant}
	case ClientPause:
		return trait{atClient, mostlyLong}
	case ClientClock:
		return trait{atClient, free}
	default:
		return trait{atNothing, instant}
	}
}
