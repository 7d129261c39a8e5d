// Command lock-manager spreads twelve locks over three participants, stops the
// first one, and shows who holds what before and after: exactly four locks
// move, and no survivor loses one.
//
//	go run ./examples/lock-manager              # the first participant leaves
//	go run ./examples/lock-manager --kill       # it is a process, and is killed with SIGKILL
//	go run ./examples/lock-manager --strategy mod
//
// It runs on a ZooKeeper server of its own, in memory, unless LOCKKEEPER_ZK
// names another one. What the locks are and who may join stands in
// lock-manager.yaml.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

//go:embed lock-manager.yaml
var sample []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are what the example is run with.
type settings struct {
	file     string
	strategy string
	kill     bool
	zk, root string
}

// run runs the example, or one of its participants, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := settings{zk: os.Getenv("LOCKKEEPER_ZK"), root: os.Getenv("LOCKKEEPER_ROOT")}
	var name string
	flags := flag.NewFlagSet("lock-manager", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.file, "f", "", "another `file` than lock-manager.yaml; its first group counts")
	flags.StringVar(&s.strategy, "strategy", "",
		"another `strategy` than that of the file: balanced, sticky, weighted, rendezvous or mod")
	flags.BoolVar(&s.kill, "kill", false, "run the participants as processes, and kill the first one with SIGKILL")
	flags.StringVar(&name, "participant", "", "be the participant of this `name`, until stdin ends: what --kill runs")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	cfg, spec, err := s.load()
	if err == nil && name != "" {
		err = participate(ctx, cfg, spec, name, stdin, stdout)
	} else if err == nil {
		err = s.withServer(&cfg, func() error {
			_, err := show(ctx, cfg, spec, s, stdout)
			return err
		})
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "lock-manager:", err)
		return 1
	}
	return 0
}

// load reads the file.
func (s settings) load() (lock.Config, group.Spec, error) {
	name, text := "lock-manager.yaml", sample
	if s.file != "" {
		var err error
		if text, err = os.ReadFile(s.file); err != nil {
			return lock.Config{}, group.Spec{}, err
		}
		name = s.file
	}
	file, err := config.Parse(name, text, config.Options{})
	if err != nil {
		return lock.Config{}, group.Spec{}, err
	}
	if len(file.Groups) == 0 || len(file.Groups[0].Participants) < 2 {
		return lock.Config{}, group.Spec{}, fmt.Errorf("%s names no group with two participants or more; write groups: "+
			"[{name: ..., locks: ..., participants: [...]}]", name)
	}
	spec := file.Groups[0]
	if s.strategy != "" {
		spec.Strategy = s.strategy
	}
	if s.zk != "" {
		if file.Client.Servers, file.Client.Chroot, err = lock.ParseServers(s.zk); err != nil {
			return lock.Config{}, group.Spec{}, err
		}
	}
	if s.root != "" {
		file.Client.Root = s.root
	}
	return file.Client, spec, nil
}

// withServer runs do with a server in memory if no other one is named.
func (s settings) withServer(cfg *lock.Config, do func() error) error {
	if len(cfg.Servers) > 0 {
		return do()
	}
	server, err := zktest.Start(zktest.TickTime(500 * time.Millisecond))
	if err != nil {
		return err
	}
	defer server.Close()
	cfg.Servers = []string{server.Addr()}
	return do()
}
