package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	// devUser is whom ZooKeeper, and the audit trail, know those by who have the
	// credentials of dev.
	devUser = "dev"

	// credentialsFile is where they are, in the form of --zk-digest-file.
	credentialsFile = "credentials"
)

// secure gives the clients of our server credentials, and returns the file that
// has them: made up for the run, or those that --data-dir has from the last one.
func (d *devFlags) secure() (file string, err error) {
	if file, err = filepath.Abs(filepath.Join(cmp.Or(d.dataDir, d.scratch.dir), credentialsFile)); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(devUser + ":" + rand.Text() + "\n")
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("the credentials of the server: %w", err)
	}
	user, password, found := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !found || user == "" || password == "" {
		return "", fmt.Errorf("--data-dir: %s does not have the form user:password; write those that the data belongs to, "+
			"or name a new directory", file)
	}
	d.client.Auth = &lock.Digest{User: user, Password: password}
	return file, nil
}

// isOpen reports whether the data that our server has found was written without
// credentials: it is not trusted, since any client could have written it.
func (d *devFlags) isOpen(ctx context.Context) bool {
	if d.dataDir == "" {
		return false
	}
	client, err := lock.NewClient(d.client)
	if err != nil {
		return false // the caller that needs one reports why
	}
	defer closeClient(client)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return errors.As(client.CheckAccess(ctx), new(*lock.UntrustedError))
}

// makeRoot makes the root for every client to take locks in, with the operator of the run:
// otherwise only the first client could write it. It reports whether it was there, made by
// an older version for that user alone.
func (d *devFlags) makeRoot(ctx context.Context) (closed bool, err error) {
	self, err := d.client.OperatorID()
	if err != nil {
		return false, err
	}
	d.client.Operators, d.client.Contenders = []string{self}, []string{"world:anyone"}
	client, err := lock.NewClient(d.client)
	if err != nil {
		return false, err
	}
	defer closeClient(client)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	nodes, err := client.Init(ctx)
	if err != nil {
		return false, fmt.Errorf("the root of the server: %w", err)
	}
	for _, n := range nodes {
		closed = closed || n.Differs != ""
	}
	return closed, nil
}
