// Package robust is the robustness suite: a real ensemble of three servers, a dozen
// client processes that take locks at random, faults of every kind that
// package nemesis can make, and a verdict on what the clients were told.
//
// The one idea: no part of it knows how the lock works. Clients use the public
// API and record their calls and the results; a model decides afterwards whether
// that can have been (package verdict says what is promised, and what is not);
// the files that the locks protect refuse stale tokens on their own (package
// resource). So the suite finds a broken promise whatever the reason. That it
// does is shown with bugs that are planted into the product (package bugs).
//
//	make robust DURATION=10m SEED=7   # faults for ten minutes, then a report
//	make robust-bugs                  # each planted bug, until it is found
//
// The test of this package plays a fixed list of faults for three quarters of a minute. How to
// read a report is in its README.md.
package robust
