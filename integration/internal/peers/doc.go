// Package peers finds ZooKeeper clients in other languages and builds programs of ours for them: Kazoo
// (Python) and Curator (Java), Debian's unless the environment says otherwise. A test that needs one that is
// not there fails and says what to do.
package peers
