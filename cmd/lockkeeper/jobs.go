package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func (p *program) jobs() *cobra.Command {
	c := &cobra.Command{
		Use:   "jobs",
		Short: "Show scheduled jobs, run one by hand, pause and resume them",
	}
	p.group(c)
	c.AddCommand(p.jobsLs(), p.jobsNext(), p.jobsRun(), p.jobsPause(), p.jobsResume(), p.jobsRewind(),
		p.jobsHistory(), p.jobsAdvise())
	return c
}

// jobsFile is the configuration file of commands that can do without one.
type jobsFile struct {
	name string
	flag string // that names it; "": file

	// needed: one that is there and cannot be used is an error although it is the default,
	// unless flags say all that it could say of where locks are.
	needed bool
}

// given reports whether the file was named.
func (f jobsFile) given(c *cobra.Command) bool { return c.Flags().Changed(cmp.Or(f.flag, "file")) }

func (f *jobsFile) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.name, "file", "f", defaultFile, "configuration `file`; without -f only if it is there")
}

// addAs adds it where --file or -f means something else.
func (f *jobsFile) addAs(c *cobra.Command, flag, usage string) {
	f.flag = flag
	c.Flags().StringVar(&f.name, flag, defaultFile, usage)
}

// jobsConfig reads the file if there is one, and says how to reach ZooKeeper: what
// flags say counts before the environment, and that before the file. The configuration
// is nil without a file. One that was not named must not
// prevent pausing a job: it is left out when it cannot be used. It says where
// ZooKeeper is if a file that was not named says so, or if a named one does not.
func (p *program) jobsConfig(c *cobra.Command, file jobsFile) (*config.Config, lock.Config, error) {
	cfg, broken := config.Load(file.name, config.Options{})
	var client lock.Config
	if broken == nil {
		client = cfg.Client
	}
	p.applyZooKeeper(&client)
	p.problems.addRequest(client.Validate(), zookeeperFlag)
	if err := p.usage(c); err != nil {
		return nil, client, err
	}
	if broken != nil {
		_, err := os.Stat(file.name)
		isThere := !errors.Is(err, fs.ErrNotExist)
		if file.given(c) || file.needed && isThere && (p.zookeeper.servers == "" || p.zookeeper.root == "") {
			return nil, client, broken
		}
		if isThere {
			p.say("%s cannot be used and is left out; lockkeeper config validate says why", file.name)
		}
	}
	if cfg != nil {
		p.tellCluster(cfg, client, file.given(c))
	}
	client.Logger = p.quiet()
	return cfg, client, nil
}

// tellCluster says which cluster a command is about, where it is not the obvious one. Another
// cluster than that of the file has none of its ensembles.
func (p *program) tellCluster(cfg *config.Config, client lock.Config, named bool) {
	switch elsewhere := cluster(client) != cluster(cfg.Client); {
	case elsewhere && len(cfg.Client.Servers) > 0:
		if named && p.zookeeper.servers == "" && p.zookeeper.root == "" {
			p.say("LOCKKEEPER_ZK and LOCKKEEPER_ROOT (%s) go before %s (%s)", cluster(client), cfg.File, cluster(cfg.Client))
		}
		if client.Auth != nil && client.Auth == cfg.Client.Auth {
			p.say("signing in at %s with the credentials of %s, which is about %s; "+
				"give others with --zk-digest-file or LOCKKEEPER_ZK_DIGEST_FILE", cluster(client), cfg.File, cluster(cfg.Client))
		}
		cfg.Ensembles = nil
	case !elsewhere && !named && p.zookeeper.servers == "" && os.Getenv("LOCKKEEPER_ZK") == "" &&
		len(cfg.Client.Servers) > 0:
		p.say("using ./%s: %s", cfg.File, cluster(client))
	}
}

// cluster names where locks are, for people.
func cluster(cfg lock.Config) string {
	servers := strings.Join(cfg.Servers, ",")
	return "ZooKeeper " + cmp.Or(servers, defaultServers) + cfg.Chroot + ", root " + cmp.Or(cfg.Root, "/lockkeeper")
}

// onJobs lets do change something about jobs, and put it on record. Credentials
// are not asked for: the right to write the nodes of jobs is enough. cfg may be nil.
func (p *program) onJobs(
	c *cobra.Command, cfg *config.Config, client lock.Config, do func(context.Context, *operator) error,
) error {
	return p.untilSignalled(c, client, func(ctx context.Context, client *lock.Client) error {
		o, err := newOperator(client, cfg)
		if err != nil {
			return err
		}
		return do(ctx, o)
	})
}

// untilSignalled lets do work with a client until a signal comes.
func (p *program) untilSignalled(
	c *cobra.Command, cfg lock.Config, do func(context.Context, *lock.Client) error,
) error {
	client, err := lock.NewClient(cfg)
	if err != nil {
		return err
	}
	defer closeClient(client)
	ctx, stop := untilSignal(c.Context())
	defer stop()
	return do(ctx, client)
}

// ledgerPatience is how long ZooKeeper has to answer a question about jobs, or
// to change something about one.
const ledgerPatience = 5 * time.Second

// shortly bounds calls of the ledger, which else waits for ZooKeeper for ever.
func shortly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, ledgerPatience, noAnswer(ledgerPatience))
}

// noAnswer is the cause of a context whose time is over.
func noAnswer(within time.Duration) error { return &silentError{within} }

// jobOf returns the job with a name; nil when the file has none, or there is
// no file.
func jobOf(cfg *config.Config, name string) *jobs.Job {
	if cfg == nil {
		return nil
	}
	i := slices.IndexFunc(cfg.Jobs, func(j jobs.Job) bool { return j.Name == name })
	if i < 0 {
		return nil
	}
	return &cfg.Jobs[i]
}

// knownStates returns what the ledger knows of some jobs, and reads nothing but
// that. It returns an error if neither the file nor the ledger has some of the names.
func knownStates(
	ctx context.Context, c *cobra.Command, ledger *ticks.Ledger, names []string, cfg *config.Config,
) ([]ticks.State, error) {
	states := make([]ticks.State, len(names))
	unknown := false
	for i, name := range names {
		var err error
		if states[i], err = ledger.State(ctx, name); err != nil {
			return nil, err
		}
		unknown = unknown || !isKnown(states[i]) && jobOf(cfg, name) == nil
	}
	if !unknown {
		return states, nil
	}
	all, _, err := ledger.States(ctx)
	if err != nil {
		return nil, err
	}
	return states, unknownJobs(c, names, cfg, all)
}

// unknownJobs returns an error if neither the file nor the ledger has some of
// the names.
func unknownJobs(c *cobra.Command, names []string, cfg *config.Config, states []ticks.State) error {
	known := jobNames(cfg)
	for _, s := range states {
		known = append(known, s.Job)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	where := "no daemon has run it under this root"
	if cfg != nil {
		where = cfg.File + " does not have it, and " + where
	}
	return unknownNames(c, names, known, where)
}

// jobNames are those of the file, in its order.
func jobNames(cfg *config.Config) []string {
	if cfg == nil {
		return nil
	}
	names := make([]string, len(cfg.Jobs))
	for i, job := range cfg.Jobs {
		names[i] = job.Name
	}
	return names
}

func unknownNames(c *cobra.Command, names, known []string, where string) error {
	var bad problems
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		text := fmt.Sprintf("there is no job %q: %s", name, where)
		switch near := nearestName(name, known); {
		case near != "":
			text += fmt.Sprintf("; did you mean %q?", near)
		case len(known) > 0:
			text += "; there are " + words.Few(known, 12)
		}
		bad.add(text)
	}
	if len(bad) == 0 {
		return nil
	}
	return &usageError{command: c.CommandPath(), problems: bad}
}

// nearestName finds the name that was meant, "" if none is near.
func nearestName(name string, known []string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range known {
		names.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
		if strings.HasSuffix(k, "-"+name) || strings.HasPrefix(k, name+"-") {
			return k
		}
	}
	if near := names.SuggestionsFor(name); len(near) > 0 {
		return near[0]
	}
	return ""
}

// byFlag is who does something, for the record.
type byFlag struct{ by, reason string }

func (f *byFlag) add(c *cobra.Command, why string) {
	c.Flags().StringVarP(&f.reason, "reason", "r", "", "`why` "+why+", for the record; has to be there")
	f.addBy(c)
}

// addOptional adds the flags where a reason need not be there: without one the
// record has words instead.
func (f *byFlag) addOptional(c *cobra.Command, why, words string) {
	c.Flags().StringVarP(&f.reason, "reason", "r", words, "`why` "+why+", for the record")
	f.addBy(c)
}

func (f *byFlag) addBy(c *cobra.Command) {
	c.Flags().StringVar(&f.by, "by", "",
		"`who` does it, for the record (default: the user of the credentials, user@host without any)")
}

func (f *byFlag) check(p *program) {
	if strings.TrimSpace(f.reason) == "" && !p.unclear {
		p.problems.add("--reason is missing; write why, for those who look at the job next")
	}
	f.by, f.reason = strings.TrimSpace(f.by), strings.TrimSpace(f.reason)
}

// as is who does it with that client: what the flag says, or the user that
// ZooKeeper knows, or else the user of this machine.
func (f *byFlag) as(client *lock.Client) emergency.By {
	who := operatorFlags{by: f.by}
	return emergency.By{Name: cmp.Or(who.name(client), userAtHost()), Reason: f.reason}
}

func userAtHost() string {
	name := cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER"))
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return cmp.Or(name, "?") + "@" + host
}

// someJobs checks the arguments of a command that is about one job or several.
func (p *program) someJobs(args []string) {
	if len(args) == 0 && !p.unclear {
		p.problems.add("JOB is missing")
	}
	for i, name := range args {
		if slices.Contains(args[:i], name) {
			p.problems.add(fmt.Sprintf("%q is given twice; give each job once", name))
		}
	}
}
