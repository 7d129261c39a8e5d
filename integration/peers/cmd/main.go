// Cmd is `make bench-peers`: it runs the comparison, and it is the contestants in Go.
//
//	go run ./cmd -rounds 5 -markdown FILE
//	go run ./cmd contestant --kind lockkeeper --server 127.0.0.1:2181
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/peers"
	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := drive
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "contestant" {
		run, args = play, args[1:]
	}
	if err := run(ctx, args); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the signals end with the process
	}
}

// play is a contestant.
func play(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("contestant", flag.ContinueOnError)
	kind := flags.String("kind", "", "which lock")
	server := flags.String("server", "", "addresses, separated by commas")
	session := flags.Int("session-ms", 10_000, "session timeout, or time to live")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return contestant.Serve(ctx, contestant.Options{
		Kind: *kind, Servers: contestant.ParseServers(*server), Session: time.Duration(*session) * time.Millisecond,
	}, os.Stdin, os.Stdout)
}

// drive runs the comparison.
func drive(ctx context.Context, args []string) (err error) {
	o := peers.Options{
		Session: 10 * time.Second, FailoverSession: 4 * time.Second, Hang: 30 * time.Second, Log: os.Stderr,
	}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	var kinds []string
	for _, k := range peers.Kinds() {
		kinds = append(kinds, k.Name)
	}
	var sites []string
	for _, s := range peers.Sites() {
		sites = append(sites, s.Name)
	}
	list(flags, &o.Kinds, "peers", "who takes part, beside "+peers.Product, kinds)
	list(flags, &o.Groups, "work", "what is measured", peers.Groups())
	list(flags, &o.Sites, "servers", "on which servers", sites)
	flags.IntVar(&o.Rounds, "rounds", 5, "how often each has its turn")
	flags.DurationVar(&o.Turn, "turn", time.Second, "how long a turn takes")
	flags.DurationVar(&o.WarmUp, "warm-up", 600*time.Millisecond, "how long one takes that is not measured")
	flags.DurationVar(&o.QueuePatience, "queue-patience", 90*time.Second,
		"how long waiters may take to stand in the queue")
	queues := flags.String("queues", "10,100,1000,3000,10000", "how many wait, where that is measured")
	source := flags.String("source", ".", "the directory of the module, with the contestants in Java and Python")
	markdown := flags.String("markdown", "", "a file for the tables, as Markdown")
	samples := flags.String("samples", "", "a file for every single turn, as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Turn <= 0 || o.WarmUp <= 0 {
		return errors.New("rounds, turn and warm-up have to be more than nothing")
	}
	if len(o.Kinds) > 0 {
		o.Kinds = append(o.Kinds, peers.Product)
	}
	for text := range strings.SplitSeq(*queues, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 {
			return fmt.Errorf("-queues %s: %q is no number of waiters (2 or more)", *queues, text)
		}
		o.QueueSizes = append(o.QueueSizes, n)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	classes, err := os.MkdirTemp("", "lockkeeper-peers-classes-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(classes)) }()
	run, failed := peers.Measure(ctx, o, peers.FindTools(ctx, []string{self, "contestant"}, *source, classes))
	tables := run.Tables()
	return errors.Join(failed, peers.WriteText(os.Stdout, tables), save(*markdown, *samples, run, tables))
}

// list adds a flag that takes some of the names there are.
func list(flags *flag.FlagSet, to *[]string, name, about string, names []string) {
	flags.Func(name, about+": some of "+strings.Join(names, ",")+" (default all)", func(text string) error {
		*to = nil
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(names, word) {
				return fmt.Errorf("there is no %q, but %s", word, strings.Join(names, ", "))
			}
			*to = append(*to, word)
		}
		return nil
	})
}

func save(markdown, samples string, run peers.Run, tables []peers.Table) error {
	if samples != "" {
		text, err := json.MarshalIndent(struct {
			Machine peers.Machine
			Samples []peers.Sample
			Fails   []peers.Fail
		}{run.Machine, run.Samples, run.Fails}, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(samples, text, 0o600); err != nil {
			return err
		}
	}
	if markdown == "" {
		return nil
	}
	file, err := os.Create(markdown)
	if err != nil {
		return err
	}
	return errors.Join(peers.WriteMarkdown(file, tables), file.Close())
}
