package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/config"
)

// configInitFlags are the answers that a first file is made of; "" is no answer.
type configInitFlags struct{ job, schedule, command, scope string }

func (p *program) configInit() *cobra.Command {
	var f configInitFlags
	c := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a first configuration file, with comments",
		Long: `Write a first configuration file, with comments: where ZooKeeper is, and one job
under one lock. FILE is lockkeeper.yaml unless it is given; - prints the file
instead. A file that is there stays as it is.

On a terminal it asks for what no flag says; elsewhere it takes the defaults. Of
the flags about ZooKeeper, --zk and --root go into the file; LOCKKEEPER_ZK and
LOCKKEEPER_ROOT are their defaults.

Exit code 78 if FILE is there, or for an answer that cannot be in a file.`,
		Example: `  lockkeeper config init
  lockkeeper config init --zk zk1:2181,zk2:2181,zk3:2181 --job compact --scope cluster/orders
  lockkeeper config init - > lockkeeper.yaml`,
	}
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			p.checkArgs(c, args, []string{"FILE"})
		}
		if err := p.usage(c); err != nil {
			return err
		}
		return p.writeFirstConfig(c, f, cmp.Or(strings.Join(args, ""), defaultFile))
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.job, "job", "", "`name` of the job (default "+firstJob+")")
	flags.StringVar(&f.schedule, "schedule", "",
		"when it runs: five cron `fields`, @every 5m, @daily or manual (default "+firstSchedule+")")
	flags.StringVar(&f.command, "command", "", "`what` it runs, by a shell (default "+firstCommand+")")
	flags.StringVar(&f.scope, "scope", "", "what its lock protects (default job/NAME)")
	return c
}

// The answers without flags and without a terminal.
const (
	firstJob      = "hello"
	firstSchedule = "@every 1m"
	firstCommand  = `echo "the lock is held, token $LOCKKEEPER_TOKEN"`
)

func (p *program) writeFirstConfig(c *cobra.Command, f configInitFlags, file string) error {
	isThere := &codeError{exitConfig, file + " is there and stays as it is; name another FILE, or - to print"}
	if _, err := os.Lstat(file); file != "-" && err == nil { // before the user has answered questions
		return isThere
	}
	template, err := p.firstConfig(f)
	if err != nil {
		return err
	}
	p.unwritable(template)
	if err := p.usage(c); err != nil {
		return err
	}
	text, err := template.Text()
	if broken, ok := errors.AsType[*config.Errors](err); ok {
		return p.refusedAnswers(c, template, broken)
	}
	if err != nil {
		return err
	}
	if file == "-" {
		_, err = p.stdout.Write(text)
		return err
	}
	switch err := writeNew(file, text); {
	case errors.Is(err, fs.ErrExist):
		return isThere
	case err != nil:
		text := fmt.Sprintf("%s cannot be written: %v; name a file that you may write", file, withoutPath(err))
		return &codeError{exitConfig, text}
	}
	named := ""
	if file != defaultFile {
		named = " -f " + quote(file)
	}
	_, err = fmt.Fprintf(p.stdout,
		"%s is written: 1 job; check it with lockkeeper config validate%s, run it with lockkeeper run%s\n",
		printable(file), named, named)
	return err
}

// writeNew writes a file that is not there yet.
func writeNew(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name)) // half a file is no file, and would be in the way of the next try
	}
	return nil
}

// firstConfig returns the answers: of flags, of the user at the terminal, and the defaults.
func (p *program) firstConfig(f configInitFlags) (config.Template, error) {
	questions := questions{out: p.stderr}
	if p.stdin != nil && term.IsTerminal(int(p.stdin.Fd())) {
		questions.in = bufio.NewReader(p.stdin)
	}
	known := cmp.Or(os.Getenv("LOCKKEEPER_ZK"), defaultServers)
	servers := questions.answer(p.zookeeper.servers, "ZooKeeper servers", known)
	job := questions.answer(f.job, "Name of the job", firstJob)
	command := questions.answer(f.command, "What it runs, by a shell", firstCommand)
	schedule := questions.answer(f.schedule, "When it runs", firstSchedule)
	scope := questions.answer(f.scope, "What its lock protects", "job/"+job)
	return config.Template{
		Servers: servers, Root: cmp.Or(p.zookeeper.root, os.Getenv("LOCKKEEPER_ROOT")),
		Job: job, Schedule: schedule, Run: []string{"sh", "-c", command}, Scope: scope,
	}, questions.err
}

// unwritable says which answers have characters that a file is better without: what a key of a terminal
// sends, for example.
func (p *program) unwritable(t config.Template) {
	for _, one := range []struct{ flag, answer string }{
		{"--zk", t.Servers},
		{"--root", t.Root},
		{"--job", t.Job},
		{"--schedule", t.Schedule},
		{"--command", strings.Join(t.Run, " ")},
		{"--scope", t.Scope},
	} {
		bad := strings.IndexFunc(one.answer, func(r rune) bool {
			return r == utf8.RuneError || unicode.IsControl(r) && (one.flag != "--command" || r != '\n' && r != '\t')
		})
		if bad >= 0 {
			p.problems.add(fmt.Sprintf("%s: %q has a character that cannot be printed; write it without", one.flag, one.answer))
		}
	}
}

// questions are asked on a terminal, if there is one.
type questions struct {
	in  *bufio.Reader // nil: there is no terminal
	out io.Writer
	err error
}

// answer returns what is given, or what is answered, or the default.
func (q *questions) answer(given, question, without string) string {
	if given != "" || q.in == nil || q.err != nil {
		return cmp.Or(given, without)
	}
	_, _ = fmt.Fprintf(q.out, "%s [%s]: ", question, printable(without))
	line, err := q.in.ReadString('\n')
	if err != nil {
		_, _ = fmt.Fprintln(q.out)
		q.err = &codeError{exitFailed, "the answers end here; nothing was written"}
	}
	return cmp.Or(strings.TrimSpace(line), without)
}

// refusedAnswers says what is wrong with the answers, by the flags that give them.
func (p *program) refusedAnswers(c *cobra.Command, t config.Template, broken *config.Errors) error {
	job := "jobs[" + t.Job + "]"
	for _, problem := range broken.Problems {
		flag := "--job"
		switch rest, _ := strings.CutPrefix(problem.Path, job); {
		case problem.Path == "zookeeper.root":
			flag = "--root"
		case strings.HasPrefix(problem.Path, "zookeeper"):
			flag = "--zk"
		case strings.HasPrefix(rest, ".schedule"):
			flag = "--schedule"
		case strings.HasPrefix(rest, ".run"):
			flag = "--command"
		case strings.HasPrefix(rest, ".locks"):
			flag = "--scope"
		}
		text := flag + ": " + problem.What
		if problem.Instead != "" {
			text += "; " + problem.Instead
		}
		p.problems.add(text)
	}
	return p.usage(c)
}
