package zkserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
)

// WithPeerLinks lets the members of an ensemble reach each other through proxies only, which PeerLinks
// returns, so that the network between them can be broken. It does nothing to a standalone server.
//
// Each member has a zoo.cfg of its own, in which the others stand with the addresses of proxies. It would still learn
// one address from another member, that for elections, which a connecting member announces: the proxy replaces it by
// its own.
func WithPeerLinks() Option {
	return func(o *options) { o.peerLinks = true }
}

// PeerLink carries what two members of an ensemble say to each other over connections that one of them opens: for
// elections, or for replication.
type PeerLink struct {
	*netfault.Proxy
	// From opens the connections, To accepts them.
	From, To *Server
}

// Outward is the direction that the words of s take, one of the two members.
func (l PeerLink) Outward(s *Server) netfault.Direction {
	if l.From == s {
		return netfault.ToServer
	}
	return netfault.ToClient
}

// PeerLinks returns all links of a member to the others; nil is all links. There are none without WithPeerLinks.
func (e *Ensemble) PeerLinks(s *Server) []PeerLink {
	var links []PeerLink
	for _, from := range e.servers {
		for _, l := range from.peers {
			if s == nil || l.From == s || l.To == s {
				links = append(links, l)
			}
		}
	}
	return links
}

// addresses is where a member finds another one.
type addresses struct{ quorum, ballot string }

func (m member) addresses() addresses {
	return addresses{quorum: m.quorum.Addr(), ballot: m.ballot.Addr()}
}

// learnerPatience: a follower may be elected faster than its leader listens. Refused, it asks again; reset, it would
// start an election of its own, and the leader would wait for it in vain for as long as initLimit says.
const learnerPatience = 5 * time.Second

// linkPeers makes the links between all members. views tells for each where it finds each.
func linkPeers(servers []*Server, members []member) (views []map[int]addresses, err error) {
	// Where i finds j for elections. A link asks for the one the other way, which may be made after it.
	ballots := make([]atomic.Pointer[netfault.Proxy], len(servers)*len(servers))
	slot := func(i, j int) *atomic.Pointer[netfault.Proxy] { return &ballots[i*len(servers)+j] }
	for i, from := range servers {
		view := map[int]addresses{from.id: members[i].addresses()}
		views = append(views, view)
		for j, to := range servers {
			if i == j {
				continue
			}
			quorum, err := from.linkTo(to, members[j].quorum, netfault.Manner{Patience: learnerPatience})
			if err != nil {
				return nil, err
			}
			ballot, err := from.linkTo(to, members[j].ballot, netfault.Manner{Edit: func(head []byte) ([]byte, bool) {
				if back := slot(j, i).Load(); back != nil {
					return announce(head, back.Addr())
				}
				return head, true // a stranger: no member runs yet
			}})
			if err != nil {
				return nil, err
			}
			slot(i, j).Store(ballot)
			view[to.id] = addresses{quorum: quorum.Addr(), ballot: ballot.Addr()}
		}
	}
	return views, nil
}

func (s *Server) linkTo(to *Server, port *loopback.Port, manner netfault.Manner) (*netfault.Proxy, error) {
	proxy, err := netfault.ListenWith(port.Addr(), manner)
	if err != nil {
		return nil, err
	}
	s.peers = append(s.peers, PeerLink{Proxy: proxy, From: s, To: to})
	return proxy, nil
}

func (s *Server) closePeers() error {
	var errs []error
	for _, l := range s.peers {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// announce puts an address into the first message on a connection for elections: a negative number for the version of
// the protocol, the sender's id, and with its length the address at which the sender wants to be called back.
func announce(head []byte, addr string) (edited []byte, done bool) {
	const fixed = 8 + 8 + 4
	switch {
	case len(head) < 8:
		return nil, false
	case int64(binary.BigEndian.Uint64(head)) >= 0: // a release of old, which says its id alone
		return head, true
	case len(head) < fixed:
		return nil, false
	}
	size := int(int32(binary.BigEndian.Uint32(head[16:])))
	if size < 0 || size > maxAnswer {
		return head, true
	}
	if len(head) < fixed+size {
		return nil, false
	}
	edited = binary.BigEndian.AppendUint32(bytes.Clone(head[:16]), uint32(len(addr)))
	return append(append(edited, addr...), head[fixed+size:]...), true
}
