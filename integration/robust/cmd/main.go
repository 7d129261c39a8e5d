// Cmd runs the robustness suite by hand.
//
//	go run ./integration/robust/cmd run -duration 10m -seed 7 -out DIR
//	go run ./integration/robust/cmd bugs -each 3m -out DIR [BUG...]
//	go run ./integration/robust/cmd sum REPORT.json...
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
	"github.com/lockkeeper/lockkeeper/integration/robust"
	"github.com/lockkeeper/lockkeeper/integration/robust/bugs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the signals end with the process
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say run, bugs or sum")
	}
	switch what, rest := args[0], args[1:]; what {
	case "run":
		return storm(ctx, rest)
	case "bugs":
		return hunt(ctx, rest)
	case "sum":
		return sum(rest)
	default:
		return fmt.Errorf("%q is unknown: say run, bugs or sum", what)
	}
}

// settings are the flags that run and bugs have in common.
func settings(flags *flag.FlagSet) *robust.Options {
	o := &robust.Options{}
	flags.IntVar(&o.Clients, "clients", 12, "client processes")
	flags.IntVar(&o.Players, "players", 3, "goroutines that take locks, in each process")
	flags.IntVar(&o.Scopes, "scopes", 4, "locks at a time")
	flags.Float64Var(&o.Tempo, "tempo", 1, "by how much clients are slower than on an idle laptop")
	flags.Uint64Var(&o.Seed, "seed", 0, "of all that is drawn; 0: another one each time")
	flags.IntVar(&o.Lanes, "lanes", 2, "faults at a time")
	flags.DurationVar(&o.Rest, "rest", 500*time.Millisecond, "mean pause between two faults of a lane")
	flags.Func("kinds", "kinds of faults, separated by commas (default all)", func(text string) error {
		for kind := range strings.SplitSeq(text, ",") {
			o.Kinds = append(o.Kinds, nemesis.Kind(kind))
		}
		return nil
	})
	flags.DurationVar(&o.Session, "session", 3*time.Second, "session timeout of the clients")
	flags.DurationVar(&o.Margin, "margin", 0,
		"how long before the end of a session its holds end (default a twelfth of the session)")
	flags.DurationVar(&o.Tick, "tick", 500*time.Millisecond, "ZooKeeper's tick; a session lasts from 2 to 20")
	return o
}

// storm makes faults against the product as it is.
func storm(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	o := settings(flags)
	flags.DurationVar(&o.Duration, "duration", 10*time.Minute, "for how long faults are made")
	flags.IntVar(&o.Calm, "calm", 10,
		"percentage of requests that no other outranks, with a long lease: more holds last until their session ends")
	out := flags.String("out", ".", "where the report goes, and the history of what was violated")
	race := flags.Bool("race", true, "build the clients with the race detector")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seed(o)
	o.Peek = max(20*time.Second, o.Duration/20) // the judge needs a processor, too
	o.Log = chat
	report, err := full(ctx, *o, *race, "", *out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o750); err != nil {
		return err
	}
	name := filepath.Join(*out, fmt.Sprintf("report-%d", o.Seed))
	if err := save(report, name); err != nil {
		return err
	}
	fmt.Printf("\nreport: %s.txt, and %s.json for the sum\n", name, name)
	switch {
	case len(report.Violations) > 0:
		return fmt.Errorf("%d violations", len(report.Violations))
	case len(report.Unknown) > 0:
		return fmt.Errorf("%d histories that could not be decided about", len(report.Unknown))
	case report.Figures.Grants == 0:
		return errors.New("no lock was acquired: that shows nothing")
	}
	return nil
}

// hunt runs the suite against the product with one bug after the other.
func hunt(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bugs", flag.ExitOnError)
	o := settings(flags)
	flags.DurationVar(&o.Duration, "each", 3*time.Minute, "for how long each bug is looked for")
	out := flags.String("out", "", "where what shows a bug goes; default: nowhere")
	verbose := flags.Bool("v", false, "tell what happens")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seed(o)
	if *verbose {
		o.Log = chat
	}
	o.Scopes = (o.Scopes + 1) / 2 // a crowd at each
	o.Peek, o.Drain = 5*time.Second, 30*time.Second
	// First the product as it is: what is found without a bug is no find.
	none := bugs.Bug{Name: "none"}
	chosen := append([]bugs.Bug{none}, bugs.All()...)
	if flags.NArg() > 0 {
		chosen = nil
		for _, name := range flags.Args() {
			b, ok := bugs.Named(name)
			if name == none.Name {
				b, ok = none, true
			}
			if !ok {
				return fmt.Errorf("there is no bug %q", name)
			}
			chosen = append(chosen, b)
		}
	}
	wrong := 0
	for _, b := range chosen {
		found, err := look(ctx, *o, b, *out)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		fmt.Printf("%-34s %s\n", b.Name, found)
		if strings.HasPrefix(found, "NOT") != (b.Name == none.Name) {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d hunts ended as they should not", wrong, len(chosen))
	}
	return nil
}

func look(ctx context.Context, o robust.Options, b bugs.Bug, out string) (string, error) {
	if out != "" {
		out = filepath.Join(out, b.Name)
	}
	if b.Quiet {
		o.Scopes *= 4
	}
	if b.Tempo > 0 {
		o.Tempo *= b.Tempo
	}
	o.Tick, o.Session = cmp.Or(b.Tick, o.Tick), cmp.Or(b.Session, o.Session)
	o.Lanes, o.Readers, o.Calm = max(o.Lanes, b.Lanes), b.Readers, b.Calm
	switch {
	case len(o.Kinds) > 0:
	case len(b.Kinds) > 0:
		o.Kinds = b.Kinds
	default:
		// Faults of the clients and their networks: those of servers leave little
		// time to work, and no bug needs them.
		o.Kinds = []nemesis.Kind{
			nemesis.LinkSlow, nemesis.LinkSlow, nemesis.LinkSlow, nemesis.LinkBlackhole, nemesis.LinkMute, nemesis.LinkDeaf,
			nemesis.ReplyDrop, nemesis.RequestDrop, nemesis.ClientKill, nemesis.ClientPause,
		}
	}
	dir, err := os.MkdirTemp("", "robust-bug-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary one
	overlay, err := bugs.Lay(dir, b)
	if err != nil {
		return "", err
	}
	report, err := full(ctx, o, false, overlay, out)
	if err != nil {
		return "", err
	}
	if len(report.Violations) == 0 {
		return "NOT found in " + effort(report), nil
	}
	return "found after " + effort(report) + " by: " + report.Checks(), nil
}

func effort(r *robust.Report) string {
	return fmt.Sprintf("%s (%d grants, %d faults)", r.Duration.Round(time.Second), r.Figures.Grants, len(r.Faults))
}

// full runs the suite until something is violated, or for as long as it is to be.
// A run ends early when something seems to be violated that what comes later
// explains; another one, with the next seed, makes up for that.
func full(ctx context.Context, o robust.Options, race bool, overlay, out string) (*robust.Report, error) {
	total, length := &robust.Report{}, o.Duration
	for total.Duration < length && len(total.Violations) == 0 {
		o.Duration = length - total.Duration
		report, err := once(ctx, o, race, overlay, out)
		if err != nil {
			return nil, err
		}
		total.Merge(report)
		o.Seed++
	}
	return total, nil
}

// once builds the clients and runs the suite. If something was violated, the
// evidence goes to out, unless that is "".
func once(ctx context.Context, o robust.Options, race bool, overlay, out string) (*robust.Report, error) {
	dir, err := os.MkdirTemp("", "robust-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary one
	if o.Worker, err = robust.Build(ctx, dir, race, overlay); err != nil {
		return nil, err
	}
	o.Dir = dir
	if out != "" {
		o.Evidence = filepath.Join(out, fmt.Sprintf("violation-%d", o.Seed))
	}
	return robust.Run(ctx, o)
}

func save(report *robust.Report, name string) error {
	encoded, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	text, err := os.Create(name + ".txt")
	if err != nil {
		return err
	}
	err = errors.Join(report.Write(text), text.Close(), os.WriteFile(name+".json", encoded, 0o600))
	return errors.Join(err, report.Write(os.Stdout))
}

// sum adds up reports.
func sum(files []string) error {
	total := &robust.Report{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		report := &robust.Report{}
		if err := json.Unmarshal(text, report); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		total.Merge(report)
	}
	return total.Write(os.Stdout)
}

func seed(o *robust.Options) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64() >> 32 // short enough to be read out
	}
	fmt.Printf("seed %d, %s/%s, %d processors\n", o.Seed, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

func chat(format string, args ...any) {
	fmt.Printf("%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}
