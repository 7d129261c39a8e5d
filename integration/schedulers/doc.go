// Package schedulers measures what ten thousand jobs cost in one process, at
// rest and at a thousand ticks a second, against robfig/cron alone and gocron on
// the same machine in one run: make bench-schedulers. It is a module of its own,
// so that no other module depends on gocron.
//
// The one idea: every contestant is a process of its own, started anew for each
// figure, and has the same jobs with the same phases to run; the work is a
// function that takes the time and returns. Beside the ticks the two others keep
// nothing: no record of a tick, nothing that two processes agree on. So the
// ratios are what once per tick in the whole cluster costs. Several daemons that
// share the jobs are a process each, measured in one window, and no tick may run
// in two of them.
package schedulers
