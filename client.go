package lockkeeper

import "github.com/lockkeeper/lockkeeper/recipes/lock"

// A Client is the connection of one process to ZooKeeper: one session, shared by
// everything that the process locks. Close it when all work has ended.
type Client = lock.Client

// Config says how to reach ZooKeeper: root, credentials, TLS, session timeout. The
// zero value reaches localhost:2181.
type Config = lock.Config

// Connect returns a Client for servers: host:port pairs with commas between them and,
// optionally, a chroot, such as "zk1:2181,zk2:2181/tenants/a". The port defaults to
// 2181, and servers to localhost:2181. Each option changes the Config.
//
// Connect does not wait for an answer of ZooKeeper: Client.Ready does. The error
// says everything that is wrong with servers or with the Config.
func Connect(servers string, options ...func(*Config)) (*Client, error) {
	var cfg Config
	if servers != "" {
		var err error
		if cfg.Servers, cfg.Chroot, err = lock.ParseServers(servers); err != nil {
			return nil, err
		}
	}
	for _, option := range options {
		option(&cfg)
	}
	return lock.NewClient(cfg)
}

// LockState is one lock as Client.Lock reads it: its holders, and its waiters in the
// order of the queue.
type LockState = lock.State
