package jobs

import "golang.org/x/sys/unix"

// maySwitchUser reports whether this process may start commands as any user.
func maySwitchUser() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return unix.Geteuid() == 0
	}
	const both = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	return data[0].Effective&both == both
}
