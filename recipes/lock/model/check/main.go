package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock/model"
)

func main() {
	config := flag.String("config", "", "explore this configuration alone")
	without := flag.String("without", "", "take this guard away")
	states := flag.Int("states", 0, "visit so many states at most, of each configuration; 0: all")
	docs := flag.String("docs", "", "write the tables into this file")
	flag.Parse()
	var ok bool
	switch {
	case *config != "":
		ok = one(*config, *without, model.Limits{States: *states})
	default:
		var t tables
		ok = mutations(&t) && everything(&t, model.Limits{States: *states})
		if err := t.write(*docs); ok && err != nil {
			fmt.Fprintln(os.Stderr, err)
			ok = false
		}
	}
	if !ok {
		os.Exit(1)
	}
}

func one(name, without string, limits model.Limits) bool {
	c, found := model.Find(name)
	if !found {
		fmt.Fprintf(os.Stderr, "no configuration %q\n", name)
		return false
	}
	var p model.Protocol
	for _, g := range model.Guards() {
		if g.String() == without {
			p = model.Without(g)
		}
	}
	if without != "" && p == (model.Protocol{}) {
		fmt.Fprintf(os.Stderr, "no guard %q\n", without)
		return false
	}
	r := c.ExploreAs(p, limits)
	show(r)
	return r.Violation == ""
}

func mutations(t *tables) bool {
	fmt.Println("Without a guard, and where that shows:")
	ok := true
	for _, m := range model.Mutations() {
		p := model.Without(m.Without...)
		if m.Redundant != "" {
			fmt.Printf("  %-62s not found: %s\n", p, m.Redundant)
			t.redundant(p, m.Redundant)
			continue
		}
		c, _ := model.Find(m.Config)
		r := c.ExploreAs(p, model.Limits{})
		fmt.Printf("  %-62s %-9s %7d states %3d steps  %s: %s\n", p, r.Kind, r.States, len(r.Trace), c.Name, r.Violation)
		t.missed(r)
		ok = ok && r.Violation != ""
	}
	return ok
}

func everything(t *tables, limits model.Limits) bool {
	fmt.Println("\nWith all guards:")
	ok, states, begin := true, 0, time.Now()
	for _, all := range [][]model.Config{model.Bounded(), model.Narrow(), model.Large()} {
		for _, c := range all {
			r := c.Explore(limits)
			show(r)
			t.visited(r)
			ok = ok && r.Violation == ""
			states += r.States
		}
	}
	fmt.Printf("%d states in %s\n", states, time.Since(begin).Round(time.Second))
	return ok
}

func show(r model.Report) {
	end := "complete"
	if !r.Complete {
		end = "not complete"
	}
	if r.Violation != "" {
		end = r.Kind + ": " + r.Violation
	}
	fmt.Printf("  %-58s %9d states, depth %3d, %7.1fs  %s\n", r.Config, r.States, r.Depth, r.Took.Seconds(), end)
	for i, line := range r.Trace {
		fmt.Printf("    %3d %s\n", i+1, line)
	}
}
