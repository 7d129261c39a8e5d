package main

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/dashboards"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// ZooKeeper has completionTime to answer while somebody waits for a completion, and the client
// completionEnd to close its session. Then the shell offers what is known without.
const (
	completionTime = 1500 * time.Millisecond
	completionEnd  = 500 * time.Millisecond
)

// A candidate is a word that may stand at a place, and what it is.
type candidate struct{ word, about string }

// A lookup finds the candidates for a place on the command line.
type lookup func(s *completer) []candidate

// A completer is what lookups look at: the configuration file and the ZooKeeper that the command line
// so far, the environment and the current directory name. What cannot be read is empty.
type completer struct {
	ctx  context.Context // ends with completionTime
	file *config.Config  // never nil
	zk   lock.Config
}

// argumentsOf are the lookups of arguments, by command. There may be several arguments where several is true.
var argumentsOf = map[string]struct {
	lookup
	several bool
}{
	"approvals approve": {lookup: openApprovals},
	"approvals deny":    {lookup: openApprovals},
	"approvals force":   {lookup: openApprovals},
	"config explain":    {lookup: jobsOfFile},
	"dashboards print":  {lookup: dashboardFiles},
	"group show":        {lookup: groupsOfAll},
	"jobs advise":       {jobsOfFile, true},
	"jobs history":      {lookup: jobsOfAll},
	"jobs next":         {jobsOfFile, true},
	"jobs pause":        {jobsOfAll, true},
	"jobs resume":       {jobsOfAll, true},
	"jobs rewind":       {jobsOfAll, true},
	"jobs run":          {lookup: jobsOfAll},
	"locks break":       {lookup: scopesOfAll},
	"locks preempt":     {lookup: scopesOfAll},
	"locks show":        {lookup: scopesOfAll},
	"locks timeline":    {lookup: scopesOfAll},
	"locks why":         {lookup: scopesAndJobs},
	"override apply":    {lookup: noCandidates},
	"override clear":    {lookup: postedOverrides},
}

// pathsOf are the commands whose arguments are files, or commands of the machine.
var pathsOf = map[string]cobra.ShellCompDirective{
	"dashboards write": cobra.ShellCompDirectiveFilterDirs,
	"config init":      cobra.ShellCompDirectiveDefault,
	"exec":             cobra.ShellCompDirectiveDefault,
	"group join":       cobra.ShellCompDirectiveDefault,
	"man":              cobra.ShellCompDirectiveFilterDirs,
}

// valuesOf are the lookups of the values of flags, by name; "exec class" goes before "class".
var valuesOf = map[string]lookup{
	"above":                   levels,
	"audit by":                noCandidates,
	"below":                   levels,
	"config init job":         noCandidates,
	"config init scope":       noCandidates,
	"class":                   classesOfFile,
	"group":                   groupsOfFile,
	"if-run":                  jobsOfFile,
	"job":                     jobsOfAll,
	"kind":                    kindsOfOverrides,
	"override apply priority": overrideLevels,
	"priority":                levels,
	"scope":                   scopesOfAll,
	"strategy":                strategies,
}

// complete lets the shell complete arguments and values of flags of c and the commands in it.
func (p *program) complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		p.complete(sub)
	}
	path := commandName(c)
	if directive, ok := pathsOf[path]; ok {
		c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, directive
		}
	} else {
		from := argumentsOf[path]
		c.ValidArgsFunction = func(
			c *cobra.Command, args []string, begun string,
		) ([]cobra.Completion, cobra.ShellCompDirective) {
			if from.lookup == nil || len(args) > 0 && !from.several {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return p.candidates(c, from.lookup, begun, args), cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { p.completeFlag(c, path, f) })
	}
}

// commandName is the name of a command below the program, such as "locks show".
func commandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

func (p *program) completeFlag(c *cobra.Command, path string, f *pflag.Flag) {
	var complete cobra.CompletionFunc
	from := valuesOf[path+" "+f.Name]
	if from == nil {
		from = valuesOf[f.Name]
	}
	name, _ := pflag.UnquoteUsage(f)
	switch v := f.Value.(type) {
	case *choice:
		complete = cobra.FixedCompletions(v.of, cobra.ShellCompDirectiveNoFileComp)
	case *mode:
		complete = cobra.FixedCompletions([]string{"exclusive", "shared"}, cobra.ShellCompDirectiveNoFileComp)
	case *yes:
		complete = cobra.FixedCompletions([]string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp)
	default:
		switch {
		case from != nil:
			complete = func(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return p.candidates(c, from, begun, nil), cobra.ShellCompDirectiveNoFileComp
			}
		case name == "directory":
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case name == "file":
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		default:
			complete = cobra.NoFileCompletions
		}
	}
	_ = c.RegisterFlagCompletionFunc(f.Name, complete) // an error says that it has one: of the command that has the flag
}

// candidates asks a lookup. It offers what begins like begun, and nothing that is in taken. It writes nothing:
// that would stand in the middle of the user's line. Words come from ZooKeeper, written by other clients: those that a
// shell could take for something else are not offered.
func (p *program) candidates(c *cobra.Command, from lookup, begun string, taken []string) []cobra.Completion {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	all := from(p.completer(ctx, c))
	slices.SortStableFunc(all, func(a, b candidate) int { return strings.Compare(a.word, b.word) })
	all = slices.CompactFunc(all, func(a, b candidate) bool { return a.word == b.word })
	var offered []cobra.Completion
	for _, one := range all {
		if strings.HasPrefix(one.word, begun) && !strings.HasPrefix(one.word, "-") && !slices.Contains(taken, one.word) &&
			plainWord.MatchString(one.word) {
			offered = append(offered, cobra.CompletionWithDesc(one.word, printable(one.about)))
		}
	}
	return offered
}

func (p *program) completer(ctx context.Context, c *cobra.Command) *completer {
	s := &completer{ctx: ctx, file: &config.Config{}}
	flag := cmp.Or(c.Flag("config"), c.Flag("file")) // --file is another file where --config is
	if flag != nil {
		s.load(cmp.Or(flag.Value.String(), defaultFile))
	}
	s.zk = s.file.Client
	p.applyZooKeeper(&s.zk)
	s.zk.Logger = slog.New(slog.DiscardHandler)
	return s
}

// load reads the file, if that does not take longer than there is: it may be a pipe, or on a server that is gone.
func (s *completer) load(name string) {
	loaded := make(chan *config.Config, 1)
	go func() {
		file, _ := config.Load(name, config.Options{}) // nil with an error
		loaded <- file
	}()
	select {
	case file := <-loaded:
		if file != nil {
			s.file = file
		}
	case <-s.ctx.Done():
	}
}

// ask lets look read from the ensembles that have what is looked for: home, or all of them.
func (s *completer) ask(all ensembles, look func(ctx context.Context, client *lock.Client) []candidate) []candidate {
	found := make([][]candidate, len(all))
	_ = all.each(s.ctx, func(i int, e *ensemble) error {
		settings := e.config
		settings.Logger = s.zk.Logger
		client, err := lock.NewClient(settings)
		if err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), completionEnd)
			defer cancel()
			_ = client.Close(ctx)
		}()
		found[i] = look(s.ctx, client)
		return nil
	})
	return slices.Concat(found...)
}

func (s *completer) home() ensembles { return ensemblesOf(nil, s.zk) }

// scopesOfAll are those that were ever locked, and those that the file has.
func scopesOfAll(s *completer) []candidate {
	all := s.ask(ensemblesOf(s.file, s.zk), func(ctx context.Context, client *lock.Client) (all []candidate) {
		states, _, _ := client.Locks(ctx)
		for _, l := range states {
			about := "free"
			if len(l.Holders) > 0 {
				about = "held by " + fewOwners(l.Holders)
			}
			all = append(all, candidate{l.Scope, about})
		}
		return all
	})
	for _, scope := range s.file.Scopes {
		all = append(all, candidate{scope.Name, scope.Owner})
	}
	for _, job := range s.file.Jobs {
		for _, r := range job.Requirements {
			all = append(all, candidate{r.Scope, "of job " + job.Name})
		}
	}
	return all
}

func jobsOfFile(s *completer) (all []candidate) {
	for _, name := range jobNames(s.file) {
		all = append(all, candidate{name, "job"})
	}
	return all
}

// jobsOfAll are those of the file, and those that a daemon has run.
func jobsOfAll(s *completer) []candidate {
	return append(jobsOfFile(s), s.ask(s.home(), func(ctx context.Context, client *lock.Client) (all []candidate) {
		states, _, _ := client.TickLedger("").States(ctx)
		for _, state := range states {
			all = append(all, candidate{state.Job, "job"})
		}
		return all
	})...)
}

func scopesAndJobs(s *completer) []candidate { return append(scopesOfAll(s), jobsOfAll(s)...) }

func groupsOfFile(s *completer) (all []candidate) {
	for _, g := range s.file.Groups {
		all = append(all, candidate{g.Name, "group"})
	}
	return all
}

// groupsOfAll are those of the file, and those that have had a member.
func groupsOfAll(s *completer) []candidate {
	return append(groupsOfFile(s), s.ask(s.home(), func(ctx context.Context, client *lock.Client) (all []candidate) {
		states, _, _ := group.All(ctx, client.Client)
		for _, state := range states {
			all = append(all, candidate{state.Spec.Name, "group"})
		}
		return all
	})...)
}

func postedOverrides(s *completer) []candidate {
	return s.ask(s.home(), func(ctx context.Context, client *lock.Client) (all []candidate) {
		posted, _ := client.Overrides().List(ctx)
		for _, o := range posted {
			all = append(all, candidate{o.Override.ID, o.Override.String()})
		}
		return all
	})
}

func openApprovals(s *completer) []candidate {
	return s.ask(s.home(), func(ctx context.Context, client *lock.Client) (all []candidate) {
		asked, _, _ := client.Approvals().List(ctx)
		for _, a := range asked {
			if a.Decision != nil {
				continue
			}
			all = append(all, candidate{a.ID, a.Scope})
		}
		return all
	})
}

// levels are those of the file's classes of priority.
func levels(s *completer) (all []candidate) {
	for _, name := range slices.Sorted(maps.Keys(s.file.Classes)) {
		all = append(all, candidate{strconv.Itoa(int(s.file.Classes[name])), name})
	}
	return all
}

func overrideLevels(s *completer) []candidate {
	return append(levels(s), candidate{"emergency", "goes before all others"})
}

// classesOfFile are what the locks of the file's jobs are counted under.
func classesOfFile(s *completer) (all []candidate) {
	for _, job := range s.file.Jobs {
		for _, r := range job.Requirements {
			all = append(all, candidate{cmp.Or(r.Class, r.Scope), "of job " + job.Name})
		}
	}
	return all
}

func kindsOfOverrides(*completer) (all []candidate) {
	for _, kind := range override.Kinds() {
		all = append(all, candidate{word: string(kind)})
	}
	return all
}

func strategies(*completer) (all []candidate) {
	for _, name := range assignment.Names() {
		all = append(all, candidate{word: name})
	}
	return all
}

func dashboardFiles(*completer) (all []candidate) {
	files, _ := dashboards.Files()
	for _, f := range files {
		name, _, _ := strings.Cut(f.Name, ".")
		all = append(all, candidate{name, f.About})
	}
	return all
}

func noCandidates(*completer) []candidate { return nil }
