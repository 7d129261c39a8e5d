// Package doctor looks at an installation, from the servers of ZooKeeper to the
// configuration file, and says what is wrong with it and what to do.
//
//	report := doctor.Examine(ctx, doctor.Options{Client: lock.Config{Servers: []string{"zk1:2181", "zk2:2181"}}})
//	for _, f := range report.Findings {
//		fmt.Println(f.Result, f.Check, f.Subject, f.Found, f.Do)
//	}
//
// # One idea
//
// First everything is asked that may be asked, all at once and bounded in time;
// then pure functions judge what came back. Whatever did not come back is a
// finding as well: an examination has no errors, and works best when nothing
// else does.
//
// Nothing is changed. To see how long a write takes and what the servers' clocks
// say, the doctor creates ephemeral nodes of its own and deletes them, unless it
// is to read alone.
package doctor
