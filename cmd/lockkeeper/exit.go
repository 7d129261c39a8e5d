package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Exit codes. exec has more: the command's own, 126 and 127 for a command that
// cannot be started, 128+n for a signal n.
const (
	exitFailed      = 1
	exitNotAcquired = 75 // also: ZooKeeper does not answer, or a participant's name or an address is taken
	exitPreempted   = 76 // also: the lease ended
	exitLost        = 77
	exitConfig      = 78 // the configuration, the command line or the credentials
)

// A codeError ends the program with a code of its own. Without a text nothing
// is left to be said.
type codeError struct {
	code int
	text string
}

func (e *codeError) Error() string { return e.text }

// A silentError says that ZooKeeper has not answered in the time that it had. Where
// the client knows why, a *lock.UnavailableError comes with it.
type silentError struct{ within time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("no answer from ZooKeeper within %s", e.within)
}

// exit says what went wrong, and returns the exit code.
func (p *program) exit(err error) int {
	code := exitCode(err)
	if broken, ok := errors.AsType[*config.Errors](err); ok {
		p.showConfig(broken)
		return code
	}
	if err == nil || err.Error() == "" {
		return code
	}
	text := err.Error()
	if _, denied := errors.AsType[*lock.AccessError](err); denied {
		text = strings.ReplaceAll(text, "zookeeper.auth", zookeeperFlag("auth"))
	}
	if _, unknown := errors.AsType[*lock.ListsError](err); unknown {
		text = listFlags.Replace(text)
	}
	if errors.As(err, new(*silentError)) && !errors.As(err, new(*lock.UnavailableError)) {
		text += "; check that the servers run and can be reached from here: lockkeeper doctor"
	}
	for line := range strings.SplitSeq(text, "\n") {
		p.say("%s", line)
	}
	return code
}

// listFlags spell the keys of the lists of who may do what.
var listFlags = strings.NewReplacer(
	"zookeeper.operators", zookeeperFlag("operators"), "zookeeper.contenders", zookeeperFlag("contenders"),
	"zookeeper.readers", zookeeperFlag("readers"),
)

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*codeError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*jobs.SignalError](err); ok {
		return e.ExitCode()
	}
	if e, ok := errors.AsType[*jobs.StartError](err); ok {
		return e.ExitCode()
	}
	switch {
	case isOneOf(err, new(*usageError), new(*config.Errors), new(*lock.RequestError), new(*lock.AccessError),
		new(*group.NotParticipantError), new(*lock.IdentityError),
		new(*lock.ListsError), new(*lock.UntrustedError), new(*opstore.NoOverrideError), new(*opstore.NoApprovalError),
		new(*lock.StaleTokenError), new(*lock.NotHeldError), new(*lock.NoRootError), new(*lock.EmergencyError)):
		return exitConfig
	case isOneOf(err, new(*lock.UnavailableError), new(*silentError), new(*group.NameTakenError)):
		return exitNotAcquired
	}
	return exitFailed
}

// isOneOf reports whether errors.As finds one of the targets in err.
func isOneOf(err error, targets ...any) bool {
	return slices.ContainsFunc(targets, func(target any) bool { return errors.As(err, target) })
}
