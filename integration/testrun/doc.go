// Testrun runs the tests of the repository in parts, each with its own settings, and ends with one summary:
// what failed, the first lines of why, the file with all that it printed, and the command that repeats just
// that test. A part that fails does not keep the others from running.
//
//	go run ./integration/testrun unit      # what needs no server, without what takes long
//	go run ./integration/testrun test      # what a newcomer must see pass
//	go run ./integration/testrun full      # and the rest
//	go run ./integration/testrun rest      # the rest alone
//	go run ./integration/testrun flaky -n 20 ./recipes/lock ./integration/locks
//
// The parts are listed in parts.go; CONTRIBUTING.md says what each layer of the suite proves. flaky runs the tests of
// packages many times, in random order, on different numbers of processors, with and without busy loops beside them,
// and prints how often which test failed.
package main
