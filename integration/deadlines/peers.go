package deadlines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// Peer is a lock of another library, for comparison.
type Peer struct {
	Name string
	// Hint is the event by which the library says that it is not connected, Loss the one by which it says that
	// the session is over.
	Hint, Loss string
	// open takes the locks and lets a waiter wait for each. It says QUEUED and GRANTED of the waiters, and the library's
	// events of the holders. The function ends everything.
	open func(ctx context.Context, v peerRun) (end func(), err error)
}

// peerRun is what an peer is given.
type peerRun struct {
	number  int // of the round
	session time.Duration
	proxies []string
	others  []string
	say     func(holder int, what string)
}

// PeerSample is what became of one holder of an peer. Times count from the fault; 0 is never.
type PeerSample struct {
	Peer    Peer
	Setup   Setup
	Fault   Fault
	Session time.Duration
	Hint    time.Duration
	Loss    time.Duration
	Granted time.Duration
}

// RunPeer is Run for another library: n holders, whose pings come at different times.
func (b *Bench) RunPeer(ctx context.Context, a Peer, f Fault, session time.Duration, n int) ([]PeerSample, error) {
	b.rounds++
	s, err := newTarget(ctx, b.ensemble, f)
	if err != nil {
		return nil, err
	}
	v := peerRun{number: b.rounds, session: session}
	for _, server := range s.others {
		v.others = append(v.others, server.Addr())
	}
	var ways []*way
	defer func() {
		for _, w := range ways {
			_ = w.Close()
		}
	}()
	for i := range n {
		w, err := newWay(s.holds[i%len(s.holds)].Addr())
		if err != nil {
			return nil, err
		}
		ways = append(ways, w)
		v.proxies = append(v.proxies, w.Addr())
	}
	events := newEventLog(n)
	v.say = events.note
	end, err := a.open(ctx, v)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := events.await(ctx, "QUEUED", time.Minute); err != nil {
		return nil, err
	}
	if err := wait(ctx, time.Now().Add(session)); err != nil {
		return nil, err
	}
	for _, w := range ways {
		w.refuse()
	}
	faultAt := time.Now()
	if err := s.inject(ctx); err != nil {
		return nil, err
	}
	// A hint may come only when the server gives up.
	late := 2*session + time.Duration(b.setup.SyncLimit+3)*b.setup.Tick
	err = events.await(ctx, "GRANTED", late+20*time.Second)
	_ = wait(ctx, faultAt.Add(late))
	var samples []PeerSample
	for i := range n {
		of := events.since(faultAt, i)
		samples = append(samples, PeerSample{
			Peer: a, Setup: b.setup, Fault: f, Session: session, Hint: of[a.Hint], Loss: of[a.Loss], Granted: of["GRANTED"],
		})
	}
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	return samples, errors.Join(err, s.heal(healing, b.ensemble))
}

// eventLog keeps when each event of each holder was heard.
type eventLog struct {
	mu     sync.Mutex
	events []map[string][]time.Time
}

func newEventLog(n int) *eventLog {
	h := &eventLog{}
	for range n {
		h.events = append(h.events, map[string][]time.Time{})
	}
	return h
}

func (h *eventLog) note(i int, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[i][what] = append(h.events[i][what], time.Now())
}

// await returns when all have said it.
func (h *eventLog) await(ctx context.Context, what string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not all said %s in %s", what, limit))
	defer cancel()
	return process.Poll(ctx, 10*time.Millisecond, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i, events := range h.events {
			if len(events[what]) == 0 {
				return fmt.Errorf("holder %d said %v", i, slices.Collect(maps.Keys(events)))
			}
		}
		return nil
	})
}

// since returns the first time of each event of a holder after an instant.
func (h *eventLog) since(faultAt time.Time, i int) map[string]time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := map[string]time.Duration{}
	for what, times := range h.events[i] {
		for _, at := range times {
			if at.After(faultAt) {
				first[what] = at.Sub(faultAt)
				break
			}
		}
	}
	return first
}

// GoZookeeper is go-zookeeper's zk.Lock. It has no notice of a loss: what counts is the events of its connection.
func GoZookeeper() Peer {
	return Peer{
		Name: "go-zookeeper zk.Lock", Hint: zk.StateDisconnected.String(), Loss: zk.StateExpired.String(),
		open: openGoZookeeper,
	}
}

func openGoZookeeper(ctx context.Context, v peerRun) (func(), error) {
	var conns []*zk.Conn
	var waiting sync.WaitGroup
	end := func() {
		for _, c := range conns {
			c.Close()
		}
		waiting.Wait()
	}
	connect := func(servers []string, session time.Duration, tell func(zk.Event)) (*zk.Conn, error) {
		c, _, err := zk.Connect(servers, session, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithEventCallback(tell))
		if err == nil {
			conns = append(conns, c)
		}
		return c, err
	}
	for i := range v.proxies {
		path := fmt.Sprintf("/peers/go%d-%d", v.number, i)
		holder, err := connect(v.proxies[i:i+1], v.session, func(e zk.Event) {
			if e.Type == zk.EventSession {
				v.say(i, e.State.String())
			}
		})
		if err != nil {
			return end, err
		}
		if err := zk.NewLock(holder, path, zk.WorldACL(zk.PermAll)).Lock(); err != nil {
			return end, err
		}
		waiter, err := connect(v.others, longest, func(zk.Event) {})
		if err != nil {
			return end, err
		}
		waiting.Go(func() {
			if zk.NewLock(waiter, path, zk.WorldACL(zk.PermAll)).Lock() == nil {
				v.say(i, "GRANTED")
			}
		})
		err = process.Poll(ctx, 10*time.Millisecond, func() error {
			nodes, _, err := holder.Children(path)
			if err == nil && len(nodes) < 2 {
				err = errors.New("the waiter does not wait")
			}
			return err
		})
		if err != nil {
			return end, err
		}
		v.say(i, "QUEUED")
		if err := wait(ctx, time.Now().Add(v.session/3/time.Duration(len(v.proxies)))); err != nil {
			return end, err
		}
	}
	return end, nil
}

// Curator is Curator's InterProcessMutex with a ConnectionStateListener: a program compiled from the directory java.
func Curator(java peers.Java) Peer {
	return Peer{Name: "Curator InterProcessMutex", Hint: "SUSPENDED", Loss: "LOST", open: func(
		_ context.Context, v peerRun,
	) (func(), error) {
		args := append([]string{strconv.FormatInt(v.session.Milliseconds(), 10), strings.Join(v.others, ",")}, v.proxies...)
		command := java.CommandWith([]string{"-XX:TieredStopAtLevel=1", "-Xmx128m", fmt.Sprintf("-Dround=%d", v.number)},
			args...)
		cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it ends with its standard input
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		p, err := process.Start(cmd)
		if err != nil {
			return nil, err
		}
		var reading sync.WaitGroup
		reading.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				number, what, _ := strings.Cut(lines.Text(), " ")
				if i, err := strconv.Atoi(number); err == nil && i < len(v.proxies) {
					v.say(i, what)
				}
			}
		})
		return func() {
			_ = in.Close()
			_ = p.Terminate(10 * time.Second)
			reading.Wait()
		}, nil
	}}
}

// PeerTable renders samples of one peer, fault and session each as a row in markdown.
func PeerTable(samples []PeerSample) string {
	type key struct {
		peer    string
		tick    time.Duration
		fault   Fault
		session time.Duration
	}
	groups := map[key][]PeerSample{}
	var rows []key
	for _, s := range samples {
		k := key{s.Peer.Name, s.Setup.Tick, s.Fault, s.Session}
		if groups[k] == nil {
			rows = append(rows, k)
		}
		groups[k] = append(groups[k], s)
	}
	var b strings.Builder
	b.WriteString("| library | tick | fault | session | n | not connected | session over | next granted | two holders, " +
		"by the first event | two holders, by the second |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range rows {
		var hint, loss, granted []time.Duration
		for _, s := range groups[k] {
			hint, loss, granted = append(hint, s.Hint), append(loss, s.Loss), append(granted, s.Granted)
		}
		a := groups[k][0].Peer
		fmt.Fprintf(&b,
			"| %s | %s | %s | %s | %d | `%s` %s | `%s` %s | %s | %s | %s |\n", k.peer, k.tick, k.fault, k.session, len(hint),
			a.Hint, spread(hint), a.Loss, spread(loss), spread(granted), both(hint, granted), both(loss, granted))
	}
	return b.String()
}

// spread renders the least and the most. 0 is never.
func spread(list []time.Duration) string {
	if slices.Contains(list, 0) {
		return "never"
	}
	return fmt.Sprintf("%.2f–%.2f s", slices.Min(list).Seconds(), slices.Max(list).Seconds())
}

// both renders for how long there are two holders.
func both(told, granted []time.Duration) string {
	if slices.Contains(told, 0) {
		return "until the work ends"
	}
	var longest time.Duration
	n := 0
	for i := range told {
		if d := told[i] - granted[i]; d > 0 {
			longest, n = max(longest, d), n+1
		}
	}
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d, up to %.2f s", n, len(told), longest.Seconds())
}
