package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// Options say what a Nemesis breaks, and how often.
type Options struct {
	// Clients are the names of the clients; each gets links of its own. At least one.
	Clients []string
	// Hold is around how long a fault lasts whose length does not follow from its kind: a fifth to twice as
	// long. Defaults to 1s.
	Hold time.Duration
	// Kinds are drawn from, one as often as another; name one twice to have it twice as often. Defaults to All.
	Kinds []Kind
	// Lanes is how many faults there are at a time, at most. Those that overlap never have a client in common,
	// and no two of them are of servers. Defaults to 1.
	Lanes int
	// Now stamps the faults. Defaults to the time since New.
	Now func() time.Duration
	// Observe is called when a fault begins, before anything is done, and when it has ended. Defaults to
	// nothing. It may be called by several goroutines at a time.
	Observe func(Fault)
	// Processes does what is done to the processes of clients. nil: those kinds are not available.
	Processes Processes
	// Rest is the mean pause of a lane between two faults: up to twice as long. Defaults to 1s.
	Rest time.Duration
	// Seed decides what is drawn.
	Seed uint64
	// Server are further options of the servers.
	Server []zkserver.Option
	// Session is the session timeout that the clients ask for, from 2 to 20 ticks. Defaults to 2s.
	Session time.Duration
	// Tick is ZooKeeper's. Defaults to 200ms: session timeouts of 400ms to 4s.
	Tick time.Duration
}

// Processes is how the processes of clients are reached. A method returns when it is done; its error is noted
// in the fault, and nothing else follows. errors.ErrUnsupported makes the kind unavailable.
type Processes interface {
	// Kill ends a client at once; another may be started under its name.
	Kill(name string) error
	// Pause stops a client from running until Resume.
	Pause(name string) error
	Resume(name string) error
	// StepClock makes the client's wall clock show the true time plus offset; 0 puts it right.
	StepClock(name string, offset time.Duration) error
}

// Nemesis owns an ensemble of three real servers and the links of the clients to it. Its methods may be
// called from any goroutine. Run and Play may run side by side: faults wait for each other's victims.
type Nemesis struct {
	options  Options
	ensemble *zkserver.Ensemble
	routes   map[string][]*route // by client, in the order of the servers
	silences map[string]*silence // by client
	record   record
	claims   *claims

	mu          sync.Mutex
	planner     *planner // of Play
	unavailable map[Kind]string
}

// New starts the servers and the links, all whole. ctx bounds the start alone. It ends with Close.
func New(ctx context.Context, o Options) (*Nemesis, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	n := &Nemesis{
		options: o, routes: map[string][]*route{}, silences: map[string]*silence{}, claims: newClaims(),
		record: record{observe: o.Observe}, planner: newPlanner(o, 0, nil), unavailable: unavailable(o),
	}
	if len(n.Available()) == 0 {
		return nil, fmt.Errorf("nemesis: none of the kinds %v can be played here: %v", o.Kinds, n.Unavailable())
	}
	options := []zkserver.Option{
		zkserver.WithPeerLinks(), zkserver.WithFullableDisk(), zkserver.WithStartTimeout(healTimeout * 4 / 5),
		zkserver.WithTick(o.Tick),
	}
	if slices.Contains(n.Available(), ServerClock) {
		options = append(options, zkserver.WithSteppableClock())
	}
	if n.ensemble, err = zkserver.RunEnsemble(ctx, append(options, o.Server...)...); err != nil {
		return nil, err
	}
	for _, client := range o.Clients {
		quiet := &silence{now: o.Now, least: o.Session / 12, last: o.Now()}
		n.silences[client] = quiet
		for _, server := range n.ensemble.Servers() {
			r, err := newRoute(server, quiet)
			if err != nil {
				return nil, errors.Join(err, n.Close())
			}
			n.routes[client] = append(n.routes[client], r)
		}
	}
	return n, nil
}

// Start is New for the length of a test. When the test fails, the ends of the servers' logs and the faults
// are printed.
func Start(t testing.TB, o Options) *Nemesis {
	t.Helper()
	n, err := New(t.Context(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.Report())
		}
		if err := n.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return n
}

func (o Options) complete() (Options, error) {
	if len(o.Clients) == 0 {
		return o, errors.New("no clients are named")
	}
	if duplicates := len(o.Clients) - len(slices.Compact(slices.Sorted(slices.Values(o.Clients)))); duplicates > 0 {
		return o, fmt.Errorf("clients %q: a name occurs twice", o.Clients)
	}
	if len(o.Kinds) == 0 {
		o.Kinds = All()
	}
	for _, k := range o.Kinds {
		if k.trait().aim == atNothing {
			return o, fmt.Errorf("no kind of fault is called %q", string(k))
		}
	}
	for name, d := range map[string]*time.Duration{
		"hold": &o.Hold, "rest": &o.Rest, "session": &o.Session, "tick": &o.Tick,
	} {
		switch {
		case *d < 0:
			return o, fmt.Errorf("%s %s is negative", name, *d)
		case *d == 0 && name == "session":
			*d = 2 * time.Second
		case *d == 0 && name == "tick":
			*d = 200 * time.Millisecond
		case *d == 0:
			*d = time.Second
		}
	}
	if o.Lanes = max(o.Lanes, 1); o.Now == nil {
		started := time.Now()
		o.Now = func() time.Duration { return time.Since(started) }
	}
	if o.Observe == nil {
		o.Observe = func(Fault) {}
	}
	return o, nil
}

// unavailable tells what cannot be played, and why.
func unavailable(o Options) map[Kind]string {
	why := map[Kind]string{}
	if err := zkserver.ClockSteppable(); err != nil {
		why[ServerClock] = err.Error()
	}
	if runtime.GOOS != "linux" {
		why[DiskFull] = "a disk can be filled on Linux only"
	}
	if o.Processes == nil {
		for _, k := range []Kind{ClientKill, ClientPause, ClientClock} {
			why[k] = "the clients are no processes of their own"
		}
	}
	if len(o.Clients) < 2 {
		why[SessionsExpire] = "there is one client alone"
	}
	return why
}

// Connect returns the connect string of a client: its own links to all servers.
func (n *Nemesis) Connect(client string) string {
	var addresses []string
	for _, r := range n.routes[client] {
		addresses = append(addresses, r.net.Addr())
	}
	return strings.Join(addresses, ",")
}

// Direct returns a connect string past all links, for observers that no fault of the network concerns.
func (n *Nemesis) Direct() string { return n.ensemble.Connect() }

// Ensemble returns the servers.
func (n *Nemesis) Ensemble() *zkserver.Ensemble { return n.ensemble }

// Faults returns all faults so far, in the order in which they began.
func (n *Nemesis) Faults() []Fault { return n.record.all() }

// Silences returns when no request of a client that can give anything up went to a server, for a twelfth of
// the session timeout at least: nothing was deleted, and no session closed. One that goes on ends now. Stamps
// are by Options.Now.
func (n *Nemesis) Silences(client string) []Silence { return n.silences[client].all() }

// Available returns the kinds that Run draws from: those of the options that can be played here.
func (n *Nemesis) Available() []Kind {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.options.Kinds), func(k Kind) bool { return n.unavailable[k] != "" })
}

// Unavailable returns the kinds of the options that cannot be played here, and why. A report must say so.
func (n *Nemesis) Unavailable() map[Kind]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	why := maps.Clone(n.unavailable)
	maps.DeleteFunc(why, func(k Kind, _ string) bool { return !slices.Contains(n.options.Kinds, k) })
	return why
}

// refused returns why a kind cannot be played; "": it can.
func (n *Nemesis) refused(k Kind) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unavailable[k]
}

func (n *Nemesis) giveUp(k Kind, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unavailable[k] = why
}

// Notes tell what is played in another way than on a machine that allows everything.
func (n *Nemesis) Notes() []string {
	return []string{string(DiskFull) + ": " + n.ensemble.Servers()[0].Disk()}
}

// Report is all that happened, in words: what was played, what could not be, and the ends of the servers' logs.
func (n *Nemesis) Report() string {
	var text strings.Builder
	fmt.Fprintf(&text, "nemesis with seed %d:\n", n.options.Seed)
	for _, f := range n.Faults() {
		fmt.Fprintln(&text, f)
	}
	for k, why := range n.Unavailable() {
		fmt.Fprintf(&text, "not available: %s: %s\n", k, why)
	}
	for _, note := range n.Notes() {
		fmt.Fprintln(&text, note)
	}
	for _, s := range n.ensemble.Servers() {
		fmt.Fprintf(&text, "end of the log of server %d at %s:\n%s\n", s.ID(), s.Addr(), s.LogTail(30))
	}
	return text.String()
}

// Heal puts everything right that may be wrong, and returns when all servers serve. Run and Play do it themselves.
func (n *Nemesis) Heal(ctx context.Context) error {
	var errs []error
	for _, routes := range n.routes {
		for _, r := range routes {
			errs = append(errs, r.net.Pass())
		}
	}
	for _, l := range n.ensemble.PeerLinks(nil) {
		errs = append(errs, l.Pass())
	}
	for _, s := range n.ensemble.Servers() {
		if n.options.steppable() {
			errs = append(errs, s.StepClock(0))
		}
		errs = append(errs, s.FreeDisk())
		if s.Alive() {
			errs = append(errs, s.Resume())
		}
	}
	errs = append(errs, n.ensemble.Restart(ctx), n.ensemble.WaitCommitting(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("nemesis: heal: %w", err)
	}
	return nil
}

// steppable tells whether the servers' clocks can be stepped.
func (o Options) steppable() bool {
	return slices.Contains(o.Kinds, ServerClock) && zkserver.ClockSteppable() == nil
}

// Close ends links and servers.
func (n *Nemesis) Close() error {
	var errs []error
	for _, routes := range n.routes {
		for _, r := range routes {
			errs = append(errs, r.close())
		}
	}
	return errors.Join(append(errs, n.ensemble.Close())...)
}
