package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// A Site is the servers of one part of a run.
type Site struct {
	// Name is what it is chosen by.
	Name string

	// About says what the servers are.
	About string

	// Options are those of ZooKeeper, Members is how many servers it has.
	Options []zkserver.Option
	Members int

	// Outsiders says that etcd and Redis are there, too.
	Outsiders bool
}

// tick is the unit of ZooKeeper's clock, as in its own sample configuration.
const tick = 2 * time.Second

// Sites returns the sites.
func Sites() []Site {
	return []Site{
		{Name: "tmpfs", About: "one server, its log in memory; etcd and Redis likewise", Members: 1, Outsiders: true},
		{Name: "disk", About: "one server, every write synced to disk", Members: 1, Options: []zkserver.Option{
			zkserver.WithFsync(),
		}},
		{Name: "ensemble", About: "three servers on this machine, their logs in memory", Members: 3},
	}
}

// A place is a site whose servers run.
type place struct {
	site      Site
	zookeeper []*zkserver.Server
	addresses map[Family]string // separated by commas
	closers   []func() error
}

// open starts the servers. What cannot be started is in tools.Missing, by its family.
func (s Site) open(ctx context.Context, tools Tools, wanted func(Family) bool) (*place, error) {
	p := &place{site: s, addresses: map[Family]string{}}
	if wanted(ZooKeeper) && tools.Missing[string(ZooKeeper)] == nil {
		if err := p.openZooKeeper(ctx); err != nil {
			return nil, err
		}
	}
	if !s.Outsiders {
		return p, nil
	}
	for family, open := range map[Family]func(context.Context, Tools) error{Etcd: p.openEtcd, Redis: p.openRedis} {
		if !wanted(family) || tools.Missing[string(family)] != nil {
			continue
		}
		if err := open(ctx, tools); err != nil {
			tools.Missing[string(family)] = fmt.Errorf("%s could not be started: %w", family, err)
		}
	}
	return p, nil
}

func (p *place) openZooKeeper(ctx context.Context) error {
	options := append(p.site.Options, zkserver.WithOptimisingCompiler(), zkserver.WithTick(tick), zkserver.WithHeap(1024))
	var addresses []string
	if p.site.Members == 1 {
		server, err := zkserver.Run(ctx, options...)
		if err != nil {
			return err
		}
		p.zookeeper, addresses = []*zkserver.Server{server}, []string{server.Addr()}
		p.closers = append(p.closers, server.Close)
	} else {
		ensemble, err := zkserver.RunEnsemble(ctx, options...)
		if err != nil {
			return err
		}
		p.zookeeper, addresses = ensemble.Servers(), ensemble.Addrs()
		p.closers = append(p.closers, ensemble.Close)
	}
	p.addresses[ZooKeeper] = strings.Join(addresses, ",")
	return nil
}

func (p *place) openEtcd(ctx context.Context, tools Tools) error {
	return p.outsider(ctx, Etcd, 2, func(dir string, ports []*loopback.Port) *exec.Cmd {
		client, peer := "http://"+ports[0].Addr(), "http://"+ports[1].Addr()
		return exec.Command(tools.etcd, "--data-dir", filepath.Join(dir, "data"),
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
			"--logger", "zap", "--log-level", "error")
	})
}

func (p *place) openRedis(ctx context.Context, tools Tools) error {
	return p.outsider(ctx, Redis, 1, func(dir string, ports []*loopback.Port) *exec.Cmd {
		return exec.Command(tools.redis, "--bind", "127.0.0.1", "--port", strconv.Itoa(ports[0].Number()),
			"--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no")
	})
}

// outsider starts a server that is not ZooKeeper, in memory where that can be, and waits until it listens.
func (p *place) outsider(
	ctx context.Context, family Family, ports int, command func(dir string, ports []*loopback.Port) *exec.Cmd,
) (err error) {
	dir, err := memoryDir()
	if err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { return os.RemoveAll(dir) })
	reserved := make([]*loopback.Port, ports)
	for i := range reserved {
		if reserved[i], err = loopback.Reserve(); err != nil {
			return err
		}
		p.closers = append(p.closers, reserved[i].Release)
	}
	cmd := command(dir, reserved)
	said := &ending{}
	cmd.Stdout, cmd.Stderr, cmd.Dir = said, said, dir
	server, err := process.Start(cmd)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, server.Kill)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = process.Poll(ctx, 20*time.Millisecond, func() error {
		if !server.Alive() {
			return process.ErrEnded
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp4", reserved[0].Addr())
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return fmt.Errorf("%w; it said: %s", err, said)
	}
	p.addresses[family] = reserved[0].Addr()
	return nil
}

// memoryDir makes a directory in memory, if there is such a thing.
func memoryDir() (string, error) {
	const prefix = "lockkeeper-peers-"
	if dir, err := os.MkdirTemp("/dev/shm", prefix); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", prefix)
}

func (p *place) close() error {
	var errs []error
	for _, end := range slices.Backward(p.closers) { // a server ends before its directory goes
		errs = append(errs, end())
	}
	p.closers = nil
	return errors.Join(errs...)
}
