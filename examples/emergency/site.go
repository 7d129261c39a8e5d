package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// root is the node under which each run has one of its own.
const root = "/lockkeeper-emergency"

// A site is where the story happens: a part of ZooKeeper that only the
// daemons and ana may touch, and a directory with the overrides file.
type site struct {
	daemons lock.Config // with their credentials
	ana     lock.Config // with hers, those of an operator
	bob     lock.Config // with his: he calls himself an operator, and is none
	file    string      // the overrides file, which is not there yet
}

// newSite makes up the credentials of this run.
func newSite(ctx context.Context, cfg lock.Config, dir string) (site, error) {
	cfg.Root = root
	if err := makeRoot(ctx, cfg); err != nil {
		return site{}, err
	}
	cfg, err := cfg.Scratch()
	if err != nil {
		return site{}, err
	}
	daemons, ana := madeUp("daemons"), madeUp("ana")
	cfg.Operators = []string{lock.DigestID(daemons.User, daemons.Password), lock.DigestID(ana.User, ana.Password)}
	as := func(user lock.Digest) lock.Config {
		cfg.Auth = &user
		return cfg
	}
	s := site{daemons: as(daemons), ana: as(ana), bob: as(madeUp("bob")), file: filepath.Join(dir, "overrides.yaml")}
	s.bob.Operators = []string{lock.DigestID(s.bob.Auth.User, s.bob.Auth.Password)}
	return s, nil
}

func madeUp(user string) lock.Digest { return lock.Digest{User: user, Password: rand.Text()} }

// makeRoot makes the node that all runs share without credentials: those of this
// run would shut out the next one.
func makeRoot(ctx context.Context, cfg lock.Config) error {
	client, err := lock.NewClient(cfg)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err = client.Ready(soon); err == nil { // else it does not answer
		_, err = client.Time(soon) // which needs a node below the root
	}
	return errors.Join(err, closeIn(ctx, client))
}

// closeIn ends a client, also when ctx has ended.
func closeIn(ctx context.Context, what interface{ Close(context.Context) error }) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return what.Close(ctx)
}

// playOn makes a site, plays the story there, and removes it.
func playOn(ctx context.Context, cfg lock.Config, out io.Writer) (end ending, err error) {
	dir, err := os.MkdirTemp("", "lockkeeper-emergency-")
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := newSite(ctx, cfg, dir)
	if err != nil {
		return end, err
	}
	return play(ctx, s, out)
}
