// Package emergency tests what operators can do, with the real program: three
// daemons as processes, on a ZooKeeper, with credentials. Every kind of override
// is said in the file and by command; when it acts, and when it ends, is measured.
package emergency
