// Package packages tests the Debian package: what is in it, its maintainer scripts with and without systemd,
// and its units under a real systemd.
//
// The machine of these tests is a systemd in namespaces of its own, on a copy-on-write view of this system's
// files, without this system's units. Its network is that of this system, so that it reaches the tests'
// ZooKeeper. It needs root, as a container with the capability SYS_ADMIN or a virtual machine has it.
//
// The session that docs/howto/deploy.md shows is testdata/session.txt, which -update writes anew.
package packages
