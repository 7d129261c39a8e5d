package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/picture"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type timelineFlags struct {
	file    jobsFile
	format  choice
	length  duration
	back    choice
	console string
}

const consoleVariable = "LOCKKEEPER_CONSOLE"

// usualLook is how long it watches by default.
const usualLook = 30 * time.Second

func (p *program) locksTimeline() *cobra.Command {
	f := &timelineFlags{
		format: choice{of: []string{"text", "ascii", "svg", "json"}},
		back:   choice{is: "10m", of: []string{"10m", "1h", "6h", "24h"}},
	}
	c := p.command(&cobra.Command{
		Use:   "timeline SCOPE",
		Short: "Draw what happened to a lock: who waited, who held it, who preempted whom",
		Long: `Draw what happened to a lock: who waited for it, who held it, who preempted
whom, and how long that took. As text for a terminal, as an SVG picture that is a
file of its own (light or dark as its reader's system is), or as JSON.

The history is that of a daemon, from its console (--console). It has what
happened since that daemon was started, at most 24 hours. Without a console,
ZooKeeper is asked: it tells who is there now and since when, not who was there
before, so the lock is looked at for a while (--for) and what happens then is
drawn. Ctrl-C ends that earlier. Nothing is written to ZooKeeper. With
zookeeper.ensembles in the file it is the ensemble that has the lock.

A console that shows things only to those who sign in takes a name and a password
in its address: https://NAME:PASSWORD@HOST. Put that into ` + consoleVariable + `,
where other users do not see it. With --for, ` + consoleVariable + ` is not looked at.

Text is drawn with the signs of Unicode where the locale (LC_ALL, LC_CTYPE, LANG)
has UTF-8, else in ASCII.

Times are those of the ZooKeeper servers, in UTC.

Exit code 75 if ZooKeeper or the console does not answer, 78 for a scope that
cannot be or that was never locked, and for a console that refuses access,
or is none.`,
		Example: `  lockkeeper locks timeline cluster/orders
  lockkeeper locks timeline cluster/orders --console http://127.0.0.1:9480 --range 1h
  lockkeeper locks timeline cluster/orders -o svg --for 1m > orders.svg
  lockkeeper locks timeline cluster/orders -o json --for 0s | jq '.rows[].owner'`,
	}, []string{"SCOPE"}, func(c *cobra.Command, args []string) error { return p.timeline(c, f, args) })
	flags := c.Flags()
	f.file.add(c)
	flags.VarP(&f.format, "output", "o", "`format`: "+f.format.list()+" (default: text, or ascii)")
	flags.Var(&f.length, "for",
		"how long to look, where there is no console; 0s: only at what is there now (default "+usualLook.String()+")")
	flags.Var(&f.back, "range", "how `far` to go back: "+f.back.list())
	flags.StringVar(&f.console, "console", "", "`address` of a daemon's console (env "+consoleVariable+")")
	return c
}

func (p *program) timeline(c *cobra.Command, f *timelineFlags, args []string) error {
	if len(args) == 1 {
		_, err := lock.EscapeScope(args[0])
		p.problems.addRequest(err, func(string) string { return "SCOPE" })
	}
	if f.length.or(0) < 0 {
		p.problems.add(fmt.Sprintf("--for: %s is negative; write for example 30s, or 0s for what is there now", f.length.d))
	}
	remote := p.consoleToAsk(c, f)
	if remote != nil {
		if err := p.usage(c); err != nil {
			return err
		}
		ctx, stop := untilSignal(c.Context())
		defer stop()
		t, err := remote.timeline(ctx, args[0], f.back.is)
		if err != nil {
			return err
		}
		return p.drawTimeline(t, f.style())
	}
	cfg, client, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	var t live.Timeline
	err = p.withLock(c.Context(), cfg, client, args[0],
		func(ctx context.Context, here *ensemble, _ *lock.Client) (err error) {
			back, _ := time.ParseDuration(f.back.is) // one of those above
			t, err = p.lookAt(ctx, here.client, args[0], f.length.or(usualLook), back)
			return here.explain(err)
		})
	if err != nil {
		return err
	}
	return p.drawTimeline(t, f.style())
}

// consoleToAsk returns the console that the flags or the environment name; nil for
// none.
func (p *program) consoleToAsk(c *cobra.Command, f *timelineFlags) *consoleClient {
	given := c.Flags().Changed
	name, address := "--console", f.console
	switch {
	case given("console") && given("for"):
		p.problems.add("--for does not go with --console, which knows what has happened; leave one of them out")
		return nil
	case given("console") && address == "":
		p.problems.add("--console is empty; write an address, or leave it out")
		return nil
	case given("for"):
		return nil
	case address == "":
		name, address = consoleVariable, os.Getenv(consoleVariable)
	}
	if address == "" {
		return nil
	}
	remote, err := newConsoleClient(address)
	if err != nil {
		p.problems.add(name + ": " + err.Error())
	}
	return remote
}

// style is how a timeline is to be written.
func (f *timelineFlags) style() string {
	usual := "ascii"
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	if strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8") {
		usual = "text"
	}
	return cmp.Or(f.format.is, usual)
}

// drawTimeline writes a timeline as it is wanted.
func (p *program) drawTimeline(t live.Timeline, style string) error {
	var out bytes.Buffer
	var err error
	switch style {
	case "json":
		err = timelineJSON(&out, t)
	case "svg":
		err = picture.TimelineSVG(&out, t, picture.Options{Standalone: true})
	default:
		err = picture.TimelineText(&out, t, picture.TextOptions{
			Width: p.columns(), ASCII: style == "ascii", Colour: inColour(p.stdout, os.Getenv),
		})
	}
	if err != nil {
		return err
	}
	_, err = out.WriteTo(p.stdout)
	return err
}

// timelineJSON writes what the console's API answers, byte for byte.
func timelineJSON(out *bytes.Buffer, t live.Timeline) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(t)
}
