package nemesis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// route is the way of one client to one server: the network, and behind it what loses requests and replies.
type route struct {
	server *zkserver.Server
	net    *netfault.Proxy
	wire   *zktest.Proxy
	began  time.Time
}

func newRoute(server *zkserver.Server, quiet *silence) (*route, error) {
	wire, err := zktest.NewProxy(server.Addr())
	if err != nil {
		return nil, err
	}
	quiet.listen(wire)
	began := time.Now()
	network, err := netfault.Listen(wire.Addr())
	if err != nil {
		return nil, errors.Join(err, wire.Close())
	}
	return &route{server: server, net: network, wire: wire, began: began}, nil
}

func (r *route) close() error { return errors.Join(r.net.Close(), r.wire.Close()) }

// spoil does to the network what a kind says, and tells what that is.
func (r *route) spoil(k Kind, rng *rand.Rand) (string, error) {
	switch k {
	case LinkCut:
		return "cut", r.net.Cut()
	case LinkReset:
		return "reset", r.net.Reset()
	case LinkRefuse:
		return "refused", r.net.Refuse()
	case LinkHalfOpen:
		return "half-open", r.net.HalfOpen()
	case LinkBlackhole, LeaderTrap:
		return "black hole", r.net.Blackhole()
	case LinkDeaf:
		return "black hole to the server", r.net.Blackhole(netfault.ToServer)
	case LinkMute:
		return "black hole to the client", r.net.Blackhole(netfault.ToClient)
	case LinkStall:
		return "stalled", r.net.Stall()
	case LinkSlow:
		most := time.Duration(20+rng.IntN(280)) * time.Millisecond
		return fmt.Sprintf("%s to %s later, each way", most/4, most), r.net.Jitter(most/4, most)
	case LeaderCutOff:
		return r.spoil([]Kind{LinkCut, LinkBlackhole, LinkHalfOpen, LinkStall}[rng.IntN(4)], rng)
	default:
		return "", fmt.Errorf("%s is no fault of a client's network", k)
	}
}

// session returns the session that was last seen on one of the routes; 0: none.
func session(routes []*route) int64 {
	var found int64
	var last time.Time
	for _, r := range routes {
		for _, e := range r.wire.Trace() {
			if at := r.began.Add(e.At); e.Session != 0 && at.After(last) {
				found, last = e.Session, at
			}
		}
	}
	return found
}

// droppings are the rules that lose some of the writes on a client's routes, or their replies.
type droppings struct {
	rules []*zktest.Rule
}

func dropSome(routes []*route, reply bool, rng *rand.Rand) *droppings {
	var mu sync.Mutex // connections ask side by side
	some := func(zktest.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(4) == 0
	}
	d := &droppings{}
	for _, r := range routes {
		fault := r.wire.On(zktest.Op(zktest.Multi, zktest.Create, zktest.Delete, zktest.SetData).Where(some))
		if reply {
			d.rules = append(d.rules, fault.DropReply())
		} else {
			d.rules = append(d.rules, fault.DropRequest())
		}
	}
	return d
}

// end returns how many were lost.
func (d *droppings) end() int {
	lost := 0
	for _, rule := range d.rules {
		rule.Remove()
		lost += rule.Fired()
	}
	return lost
}
