package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
)

// Options say what a run measures.
type Options struct {
	// Kinds are the names of those who take part, Groups those of the works, Sites those of the servers. Empty: all.
	Kinds, Groups, Sites []string

	// Rounds is how often each contestant has its turn.
	Rounds int

	// Turn is how long a turn takes. WarmUp is the same of a turn that is not measured.
	Turn, WarmUp time.Duration

	// Session is the session timeout, or the time to live of a lock; FailoverSession the one where holders are killed.
	Session, FailoverSession time.Duration

	// QueueSizes is how many wait, in the works about that; QueuePatience how long they may take to stand there.
	QueueSizes    []int
	QueuePatience time.Duration

	// Hang is how much longer than its turn a contestant may take to answer before it is ended. A contestant with
	// contexts gives up after 20 s by itself.
	Hang time.Duration

	// Log gets messages on the progress.
	Log io.Writer
}

// A Sample is one turn of one contestant.
type Sample struct {
	Site, Group, Work, Kind string
	Round                   int
	contestant.Result
	Counters Counters // of this turn
}

// A Failure is a contestant that could not do a work, or not to its end.
type Failure struct{ Site, Work, Kind, Why string }

// A Check is a turn in which everybody who was inside looked whether it was alone.
type Check struct {
	Site, Work, Kind   string
	Cycles, Violations int
}

// A Run is everything that was measured.
type Run struct {
	Options  Options
	Machine  Machine
	Samples  []Sample
	Checks   []Check
	Failures []Failure
	Fails    []Fail
	Took     time.Duration
	Short    float64 // the part of the time in which somebody on the machine waited for a processor
}

// contest is a run that is going on.
type contest struct {
	Run
	tools Tools
	place *place
	crews map[string]*crew // those that stay for the whole site
}

// Measure runs everything. What fails on the way is in the Run; an error says that nothing more could be done.
func Measure(ctx context.Context, o Options, tools Tools) (Run, error) {
	start, waited := time.Now(), pressure()
	c := &contest{Run: Run{Options: o}, tools: tools, crews: map[string]*crew{}}
	machine, err := describe(ctx, tools)
	c.Machine = machine
	for _, s := range Sites() {
		if err == nil && chosen(o.Sites, s.Name) {
			err = c.at(ctx, s)
		}
	}
	c.Took = time.Since(start)
	c.Short = (pressure() - waited).Seconds() / c.Took.Seconds()
	return c.Run, err
}

func chosen(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

// at measures on one site.
func (c *contest) at(ctx context.Context, s Site) (err error) {
	c.logf("%s: %s", s.Name, s.About)
	c.place, err = s.open(ctx, c.tools, func(f Family) bool {
		return slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Family == f && chosen(c.Options.Kinds, k.Name) })
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, crew := range c.crews {
			err = errors.Join(err, crew.close())
		}
		clear(c.crews)
		err = errors.Join(err, c.place.close())
	}()
	warm := false
	for _, w := range Works() {
		if !chosen(c.Options.Groups, w.Group) {
			continue
		}
		if !warm {
			c.warmServer(ctx)
			warm = true
		}
		if err := c.work(ctx, w); err != nil {
			return err
		}
	}
	return c.special(ctx)
}

// who returns who takes part in a work here, and notes who cannot.
func (c *contest) who(site Site, work string, names []string) []Kind {
	var there []Kind
	for _, name := range names {
		k, ok := kindOf(name)
		if !ok || !chosen(c.Options.Kinds, name) || (k.Family != ZooKeeper && !site.Outsiders) {
			continue
		}
		if err := c.tools.lacks(k); err != nil {
			c.fail(work, name, err)
			continue
		}
		there = append(there, k)
	}
	return there
}

func (c *contest) fail(work, kind string, err error) {
	c.logf("%s, %s: %v", work, kind, err)
	c.Failures = append(c.Failures, Failure{c.place.site.Name, work, kind, err.Error()})
}

func (c *contest) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Options.Log, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// crew returns the processes of a kind, which stay unless there are several.
func (c *contest) crew(k Kind, processes int) (*crew, error) {
	name := key(k, processes)
	if c.crews[name] == nil {
		crew, err := recruit(c.tools.command(k), k, c.place.addresses[k.Family], c.Options.Session, processes)
		if err != nil {
			return nil, err
		}
		c.crews[name] = crew
	}
	return c.crews[name], nil
}

func key(k Kind, processes int) string { return fmt.Sprint(k.Name, "×", processes) }

// dismiss ends the processes of a crew, or what is left of them.
func (c *contest) dismiss(crew *crew) {
	for key, other := range c.crews {
		if other == crew {
			delete(c.crews, key)
		}
	}
	if err := crew.close(); err != nil {
		c.logf("%s: %v", crew.kind.Name, err)
	}
}

// warmServer lets the compilers of a new server and of the contestants see what will be measured: for its first ten
// seconds a server gets faster by a factor of four. It ends when the limit itself, or the first contestant, gets no
// faster.
func (c *contest) warmServer(ctx context.Context) {
	own, one := Works()[0], Works()[0]
	own.Workers, own.Name = 8, "warm-up"
	one.Workers, one.Name, one.One, one.Group = 8, "warm-up", true, "contended"
	kinds := c.who(c.place.site, own.Name, own.Kinds)
	best := 0.0
	for round := range 10 {
		rate := 0.0
		for i, k := range kinds {
			crew, err := c.crew(k, 1)
			if err != nil {
				continue // the first work says so
			}
			for _, w := range []Work{own, one} {
				r, err := crew.play(ctx, c.Options.WarmUp+c.Options.Hang, func(int) contestant.Turn {
					return w.turn(0, c.Options.WarmUp)
				})
				if err != nil {
					c.dismiss(crew)
					break
				}
				if i == 0 {
					rate += float64(r.Cycles) / r.Seconds
				}
			}
		}
		if round > 2 && rate < 1.05*best {
			break
		}
		best = max(best, rate)
	}
	c.logf("warm: the last round had %.0f cycles/s", best)
}

// work lets the contestants of one work take turns.
func (c *contest) work(ctx context.Context, w Work) error {
	var crews []*crew
	for _, k := range c.who(c.place.site, w.Name, w.Kinds) {
		_, known := c.crews[key(k, w.Processes)]
		crew, err := c.crew(k, w.Processes)
		if err == nil && !known && w.Processes > 1 {
			// Each process has a compiler of its own to warm.
			own := w
			own.One, own.Inside, own.Name = false, 0, "warm-up"
			_, err = crew.play(ctx, 10*c.Options.WarmUp+c.Options.Hang, func(member int) contestant.Turn {
				return own.turn(member, 10*c.Options.WarmUp)
			})
		}
		if err == nil {
			err = c.prepare(ctx, w, crew)
		}
		if err != nil {
			c.fail(w.Name, k.Name, err)
			continue
		}
		crews = append(crews, crew)
	}
	defer func() {
		if w.Processes > 1 && c.lastOf(w) {
			for _, crew := range crews {
				c.dismiss(crew)
			}
		}
	}()
	for round := range c.Options.Rounds {
		rand.Shuffle(len(crews), func(i, j int) { crews[i], crews[j] = crews[j], crews[i] })
		for _, crew := range slices.Clone(crews) {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := c.turn(ctx, w, crew, round); err != nil {
				c.fail(w.Name, crew.kind.Name, fmt.Errorf("round %d: %w", round+1, err))
				c.dismiss(crew) // a new one does the next work
				at := slices.Index(crews, crew)
				crews = slices.Delete(slices.Clone(crews), at, at+1)
			}
		}
	}
	c.logf("%s, %s", c.place.site.Name, w.Name)
	return nil
}

// lastOf says that no other work needs the processes of this one.
func (c *contest) lastOf(w Work) bool {
	works := Works()
	at := slices.IndexFunc(works, func(other Work) bool { return other.Group == w.Group && other.Name == w.Name })
	return at+1 == len(works) || works[at+1].Processes != w.Processes
}

// prepare lets a crew do the work unmeasured, and checks what can be checked while it does.
func (c *contest) prepare(ctx context.Context, w Work, crew *crew) error {
	length := w.length(c.Options.WarmUp)
	dir := ""
	if w.exclusive(crew.kind.Name) {
		var err error
		if dir, err = memoryDir(); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	r, err := crew.play(ctx, length+c.Options.Hang, func(member int) contestant.Turn {
		t := w.turn(member, length)
		t.Check = dir
		return t
	})
	if err != nil {
		c.dismiss(crew)
		return err
	}
	if dir != "" {
		c.Checks = append(c.Checks, Check{c.place.site.Name, w.Name, crew.kind.Name, r.Cycles, r.Violations})
	}
	return nil
}

// turn measures one contestant once.
func (c *contest) turn(ctx context.Context, w Work, crew *crew, round int) error {
	before, err := c.place.count(ctx, crew.kind.Family)
	if err != nil {
		return err
	}
	length := w.length(c.Options.Turn)
	r, err := crew.play(ctx, length+c.Options.Hang, func(member int) contestant.Turn { return w.turn(member, length) })
	if err != nil {
		return err
	}
	after, err := c.place.count(ctx, crew.kind.Family)
	if err != nil {
		return err
	}
	c.Samples = append(c.Samples, Sample{
		Site: c.place.site.Name, Group: w.Group, Work: w.Name, Kind: crew.kind.Name, Round: round, Result: r,
		Counters: after.minus(before),
	})
	return nil
}
