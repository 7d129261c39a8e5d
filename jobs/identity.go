package jobs

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// An identity is the user that a command runs as.
type identity struct {
	credential *syscall.Credential // nil: it is this process's own
	name, home string              // "" if the system does not know it by name
}

// identify resolves Command.User. The error is a reason for people.
func identify(who string) (identity, error) {
	name, group, hasGroup := strings.Cut(who, ":")
	account, err := account(name)
	if err != nil {
		return identity{}, err
	}
	uid, err := number(account.Uid)
	if err != nil {
		return identity{}, fmt.Errorf("user %q has the id %q, which is no number", name, account.Uid)
	}
	var gid uint32
	switch {
	case hasGroup:
		gid, err = groupID(group)
	case account.Gid == "":
		err = fmt.Errorf("user %s is not known here, so its group is neither; write it behind a colon, such as %s:%s",
			name, name, name)
	default:
		gid, err = number(account.Gid)
	}
	if err != nil {
		return identity{}, err
	}
	groups := []uint32{gid}
	if account.Gid != "" {
		more, err := account.GroupIds()
		if err != nil {
			return identity{}, fmt.Errorf("the groups of user %q cannot be found: %w", name, err)
		}
		for _, id := range more {
			if id, err := number(id); err == nil && !slices.Contains(groups, id) {
				groups = append(groups, id)
			}
		}
	}
	is := identity{name: account.Username, home: account.HomeDir}
	ours := uid == uint32(os.Geteuid()) && gid == uint32(os.Getegid())
	switch {
	case maySwitchUser():
		is.credential = &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}
	case !ours:
		return identity{}, fmt.Errorf("this process runs as user %d and may not start a command as %q; start it as root, "+
			"or leave the user out", os.Geteuid(), who)
	}
	return is, nil
}

// account finds a user by name, or else by number. One that is not known by
// its number has nothing but that.
func account(name string) (*user.User, error) {
	if name == "" {
		return nil, errors.New(`names no user; write one such as "backup", or "backup:staff" with a group`)
	}
	found, err := user.Lookup(name)
	if err == nil {
		return found, nil
	}
	if !errors.As(err, new(user.UnknownUserError)) {
		return nil, fmt.Errorf("user %q cannot be looked up: %w", name, err)
	}
	if _, err := number(name); err != nil {
		return nil, fmt.Errorf("user %q is not known here; make it, or write another", name)
	}
	if found, err := user.LookupId(name); err == nil {
		return found, nil
	}
	return &user.User{Uid: name}, nil
}

func groupID(name string) (uint32, error) {
	if found, err := user.LookupGroup(name); err == nil {
		return number(found.Gid)
	}
	id, err := number(name)
	if err != nil {
		return 0, fmt.Errorf("group %q is not known here; make it, or write another", name)
	}
	return id, nil
}

// number reads an id. The last one means "none" to the kernel.
func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	if err == nil && n == 1<<32-1 {
		err = strconv.ErrRange
	}
	return uint32(n), err
}

// personal are the variables that say who a process is.
var personal = []string{"HOME", "LOGNAME", "USER"}

// harmless are the variables that the command of another user gets of the
// environment of this process, as sudo has it: all others may be secrets.
var harmless = []string{"LANG", "LANGUAGE", "PATH", "TERM", "TZ"}

// cleared returns an environment without the identity of another user, and
// for another user without what is not for him.
func (is identity) cleared(env []string) []string {
	if is.credential == nil {
		return env
	}
	other := int(is.credential.Uid) != os.Geteuid()
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(personal, name) ||
			other && !slices.Contains(harmless, name) && !strings.HasPrefix(name, "LC_")
	})
}

// environ returns the variables that tell a command who it is.
func (is identity) environ() []string {
	var env []string
	if is.home != "" {
		env = append(env, "HOME="+is.home)
	}
	if is.name != "" {
		env = append(env, "LOGNAME="+is.name, "USER="+is.name)
	}
	return env
}

// own are the pipes that a command may open again, by names such as
// /dev/stderr: the user that it runs as has to own them.
func (is identity) own(pipes []*os.File) error {
	if is.credential == nil {
		return nil
	}
	for _, pipe := range pipes {
		if err := pipe.Chown(int(is.credential.Uid), int(is.credential.Gid)); err != nil {
			return err
		}
	}
	return nil
}
