package peers

import "github.com/lockkeeper/lockkeeper/integration/peers/contestant"

// A Family is the servers that a kind of contestant talks to.
type Family string

// The families.
const (
	ZooKeeper Family = "ZooKeeper"
	Etcd      Family = "etcd"
	Redis     Family = "Redis"
)

// A Kind is one contestant.
type Kind struct {
	// Name is what it is called, in tables and to its process.
	Name string

	// Family is what it needs.
	Family Family

	// Language is what its process is written in: go, java or python.
	Language string

	// About says whose lock it is.
	About string
}

// Product is the kind that all others are compared with.
const Product = contestant.Product

// Kinds returns who takes part.
func Kinds() []Kind {
	return []Kind{
		{Product, ZooKeeper, "go", "lock.PriorityLock; classic.Semaphore where there are permits"},
		{
			"raw", ZooKeeper, "go",
			"create and delete of an ephemeral sequential node by go-zookeeper: the limit, does not exclude",
		},
		{"zklock", ZooKeeper, "go", "go-zookeeper's zk.Lock"},
		{"curator-mutex", ZooKeeper, "java", "Apache Curator's InterProcessMutex"},
		{"curator-rw", ZooKeeper, "java", "Apache Curator's InterProcessReadWriteLock"},
		{"curator-semaphore", ZooKeeper, "java", "Apache Curator's InterProcessSemaphoreV2"},
		{"kazoo", ZooKeeper, "python", "Kazoo's Lock"},
		{"etcd", Etcd, "go", "etcd's concurrency.Mutex: an outside reference, another server"},
		{"redis", Redis, "go", "redsync on one Redis that keeps nothing on disk: what it costs without safety"},
	}
}

func kindOf(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
