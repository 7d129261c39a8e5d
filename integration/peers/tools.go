package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// Tools are the programs of this machine that contestants and servers need.
type Tools struct {
	self   []string // the command of a contestant in Go
	source string   // the directory with those in Java and Python
	java   peers.Java
	python string
	etcd   string
	redis  string

	// Missing says, for what is not there, why, by the name of a kind's language or family.
	Missing map[string]error
}

// FindTools looks for what there is, and compiles what is in Java. self is the command that plays a contestant in Go,
// source the directory with the sources of the others, classes an existing one for what the compiler makes of them.
func FindTools(ctx context.Context, self []string, source, classes string) Tools {
	t := Tools{self: self, source: source, Missing: map[string]error{}}
	note := func(what string, err error) {
		if err != nil {
			t.Missing[what] = err
		}
	}
	var err error
	_, err = zkserver.Find()
	note(string(ZooKeeper), err)
	t.java, err = peers.CompileJava(ctx, filepath.Join(source, "java"), classes, "Contestant")
	note("java", err)
	t.python, err = peers.LocateKazoo(ctx)
	note("python", err)
	t.etcd, err = find("etcd", "etcd-server")
	note(string(Etcd), err)
	t.redis, err = find("redis-server", "redis-server")
	note(string(Redis), err)
	return t
}

// find looks on PATH, and where Debian puts it.
func find(program, pkg string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	path := filepath.Join("/usr/bin", program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no %s here: scripts/peers.sh installs Debian's package %s", program, pkg)
	}
	return path, nil
}

// lacks returns why a kind cannot take part; nil: it can.
func (t Tools) lacks(k Kind) error {
	return errors.Join(t.Missing[k.Language], t.Missing[string(k.Family)])
}

// command returns what starts a contestant.
func (t Tools) command(k Kind) []string {
	switch k.Language {
	case "java":
		return t.java.CommandWith([]string{"-Xms256m", "-Xmx4g"}) // ten thousand waiters each read the list of them all
	case "python":
		return []string{t.python, "-B", "-X", "utf8", filepath.Join(t.source, "python", "contestant.py")}
	default:
		return t.self
	}
}
