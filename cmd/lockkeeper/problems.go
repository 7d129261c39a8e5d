package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// problems is what is wrong with the command line or with the environment, one
// line each.
type problems []string

func (p *problems) add(text string) {
	if !slices.Contains(*p, text) {
		*p = append(*p, text)
	}
}

// addRequest adds the single problems of err. The fields of requests are
// spelt there as in the configuration; spell says what they are here.
func (p *problems) addRequest(err error, spell func(field string) string) {
	if err == nil {
		return
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			p.addRequest(err, spell)
		}
		return
	}
	if r, ok := errors.AsType[*lock.RequestError](err); ok {
		p.add(spell(r.Field) + ": " + inFlags.Replace(r.Reason))
		return
	}
	p.add(err.Error())
}

// inFlags spells fields of a request, as they stand in the text of errors.
var inFlags = strings.NewReplacer(
	"acquire_timeout", "--acquire",
	"cleanup_timeout", "--cleanup",
	"lease_timeout", "--lease",
	"waiting_timeout", "--waiting",
	"session timeout", "--zk-session-timeout",
)

// usageError says everything that is wrong with a command line.
type usageError struct {
	command  string
	problems problems
}

func (e *usageError) Error() string {
	return strings.Join(e.problems, "\n") + fmt.Sprintf("\nsee: %s --help", e.command)
}

// parse reads the flags and returns args without those that cannot be read.
// pflag stops at the first of them; here the rest is looked at as well, so that
// all that is wrong is said at once.
func (p *program) parse(root *cobra.Command, args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args // a shell asks how the line may go on; nothing is wrong with it yet
	}
	args = slices.Clone(args)
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	for {
		c, rest, err := root.Find(args)
		if err != nil {
			return args
		}
		c.InitDefaultHelpFlag()
		forgetValues(c)
		if err = c.ParseFlags(rest); err == nil {
			p.checkValues(c)
			forgetValues(c) // cobra reads them again
			return args
		}
		noCommand := c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-")
		var (
			unknown   *pflag.NotExistError
			valueless *pflag.ValueRequiredError
			bad, what string
		)
		switch {
		case errors.As(err, &unknown):
			bad, what = p.unknownFlag(c, unknown)
		case errors.As(err, &valueless):
			bad = "--" + valueless.GetSpecifiedName()
			if group := valueless.GetSpecifiedShortnames(); group != "" {
				bad = "-" + group
			}
			what = bad + " needs a value"
		default: // a value or a syntax that even pflag refuses
			p.problems.add(err.Error())
			return args
		}
		if noCommand { // reported later; its flags are unknown
			p.unclear = false
		} else {
			p.problems.add(what)
		}
		i := slices.IndexFunc(args, func(arg string) bool { return arg == bad || strings.HasPrefix(arg, bad+"=") })
		if i < 0 {
			return args
		}
		args = slices.Delete(args, i, i+1)
	}
}

// unknownFlag returns how a flag was written that c does not have, and what to
// say about it.
func (p *program) unknownFlag(c *cobra.Command, e *pflag.NotExistError) (written, what string) {
	p.unclear = true
	if group := e.GetSpecifiedShortnames(); group != "" {
		return "-" + group, fmt.Sprintf("unknown flag -%.1s", e.GetSpecifiedName())
	}
	written = "--" + e.GetSpecifiedName()
	what = "unknown flag " + written
	if near := nearestFlag(c, e.GetSpecifiedName()); near != "" {
		what += fmt.Sprintf("; did you mean --%s?", near)
	}
	return written, what
}

// nearestFlag finds the flag that was meant. cobra compares the names of
// commands, so the flags are given to it as that.
func nearestFlag(c *cobra.Command, name string) string {
	name = strings.ReplaceAll(name, "_", "-")
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	longer := ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		if strings.HasPrefix(name, f.Name+"-") {
			longer = f.Name // --lease-timeout: the name that the configuration has
		}
	})
	if near := flags.SuggestionsFor(name); longer == "" && len(near) > 0 {
		return near[0]
	}
	return longer
}

// checkValues asks each flag whether it could read its value.
func (p *program) checkValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(interface{ problem() string }); ok && v.problem() != "" {
			p.problems.add("--" + f.Name + ": " + v.problem())
		}
	})
}

// forgetValues empties flags that add each value to those before.
func forgetValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(interface{ forget() }); ok {
			v.forget()
		}
	})
}

func quoteAll(args []string) []string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = fmt.Sprintf("%q", arg)
	}
	return quoted
}
