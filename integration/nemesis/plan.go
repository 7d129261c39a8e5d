package nemesis

import (
	"math/rand/v2"
	"time"
)

// Step is a fault to play. What is left zero is drawn from the seed.
type Step struct {
	Kind   Kind
	Client string // of the kinds of a client
	// Server is a server's number, 1 to 3. 0 is a drawn one for kinds of servers, the leader for ServerClock,
	// and all links of the client for kinds of links. Kinds of the leader and of followers take the leader of
	// that moment instead.
	Server int
	// For is how long the fault lasts, from when it is done until it is healed. It is of no use for what is over at once.
	For time.Duration
	// After is the pause before it.
	After time.Duration
	// Offset is the step of a wall clock.
	Offset time.Duration
	// Reach is where the client can go when its follower is struck, of the kinds that wait for an answer.
	Reach Reach

	dice uint64 // decides what else is drawn while the step is played
}

// Reach is which servers a client can reach while the follower that served it is struck.
type Reach int

// The reaches.
const (
	Drawn     Reach = iota
	Alone           // that follower alone: the client's session ends
	Elsewhere       // the others as well
)

// planner draws steps: the same ones from the same seed and options, whatever happens meanwhile.
type planner struct {
	rng  *rand.Rand
	o    Options
	pool []Kind
}

func newPlanner(o Options, lane uint64, pool []Kind) *planner {
	return &planner{rng: rand.New(rand.NewPCG(o.Seed, lane)), o: o, pool: pool}
}

// next draws a step of a drawn kind.
func (p *planner) next() Step {
	return p.complete(Step{
		Kind:  p.pool[p.rng.IntN(len(p.pool))],
		After: p.between(0, 2*p.o.Rest),
	}, p.rng.IntN(2) == 0)
}

// complete draws what the step leaves open. anyServer: a server too, where 0 means something else than a drawn one.
func (p *planner) complete(s Step, anyServer bool) Step {
	s.dice = p.rng.Uint64()
	client, server := p.rng.IntN(max(1, len(p.o.Clients))), 1+p.rng.IntN(3)
	if s.Client == "" && len(p.o.Clients) > 0 {
		s.Client = p.o.Clients[client]
	}
	trait := s.Kind.trait()
	drawn := anyServer
	switch trait.aim {
	case atLink, atLeaderOrOne:
	case atNothing, atServer, atLeader, atFollower, atMajority, atServers, atClient, atClients, atLeaderLink, atServing,
		atSession, atSessions:
		drawn = true
	}
	if s.Server == 0 && drawn {
		s.Server = server
	}
	if length := p.length(trait.span); s.For == 0 {
		s.For = length
	}
	if offset := p.offset(); s.Offset == 0 {
		s.Offset = offset
	}
	if reach := p.reach(); s.Reach == Drawn {
		s.Reach = reach
	}
	return s
}

func (p *planner) length(s span) time.Duration {
	session := p.o.Session
	long := p.between(session*12/10, 2*session)
	short := p.between(session/10, session*8/10)
	hold := p.between(p.o.Hold/5, 2*p.o.Hold)
	mostly := long
	if p.rng.IntN(4) == 0 {
		mostly = short
	}
	switch s {
	case overlong:
		return long
	case mostlyLong:
		return mostly
	case brief:
		return short
	case free:
		return hold
	case instant:
	}
	return 0
}

// offset draws a step of a clock: a second, a minute or an hour, either way.
func (p *planner) offset() time.Duration {
	offset := []time.Duration{time.Second, time.Minute, time.Hour}[p.rng.IntN(3)]
	if p.rng.IntN(2) == 0 {
		return -offset
	}
	return offset
}

// reach draws mostly what ends a session.
func (p *planner) reach() Reach {
	if p.rng.IntN(4) == 0 {
		return Elsewhere
	}
	return Alone
}

func (p *planner) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(p.rng.Int64N(int64(most-least)))
}

// rand is the source of what is drawn while the step is played.
func (s Step) rand() *rand.Rand { return rand.New(rand.NewPCG(s.dice, 1)) }
