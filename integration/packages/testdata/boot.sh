#!/bin/bash
# Becomes the init of a machine: boot.sh DIR CGROUP, as process 1 of new PID, mount, UTS and IPC namespaces.
# DIR is an empty directory; what is mounted there goes with the namespaces. CGROUP is a name for the machine's processes.
set -eu
dir=$1 cgroup=$2 stage=${3:-namespaces}

if [[ $stage = namespaces ]]; then
  mount --make-rprivate /
  mount -t tmpfs tmpfs "$dir"
  mkdir "$dir"/{cgroup,lower,up,work,root}
  mount -t cgroup2 cgroup2 "$dir/cgroup"
  mkdir "$dir/cgroup/$cgroup"
  echo $$ >"$dir/cgroup/$cgroup/cgroup.procs"
  exec unshare --cgroup bash "$0" "$dir" "$cgroup" files
fi

root=$dir/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/up,workdir=$dir/work" "$root"
mkdir -p "$root"/{proc,sys,dev,run,tmp}
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys" # systemd sets limits of the kernel there
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup" 2>/dev/null || true
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for name in run tmp dev; do mount -t tmpfs -o mode=0755 tmpfs "$root/$name"; done
chmod 1777 "$root/tmp"
for name in null zero full random urandom tty; do
  touch "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root"/dev/{pts,shm}
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

# Of this system's units only what the machine needs, and nothing that would touch the kernel.
units=$root/usr/lib/systemd/system
mkdir "$dir/keep"
cp "$units"/systemd-journald{.service,.socket,-dev-log.socket} "$dir/keep"
rm -rf "$units"/* "$root"/usr/lib/systemd/system-generators "$root"/etc/systemd/system/* "$root"/usr/sbin/policy-rc.d
cp "$dir"/keep/* "$units"
for target in sysinit basic network-online timers sockets paths slices multi-user shutdown local-fs; do
  printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$target" >"$units/$target.target"
done
printf '[Unit]\nDefaultDependencies=no\nWants=systemd-journald.service systemd-journald.socket\n' >"$units/machine.target"
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >"$root/etc/systemd/journald.conf.d/machine.conf"
mkdir -p "$root"/var/{lib,log,cache}/private "$root"/etc/systemd/system/multi-user.target.wants # as systemd's own package does
chmod 700 "$root"/var/{lib,log,cache}/private
touch "$root/etc/.pwd.lock"
mkdir "$root/run/changed" # what the machine has changed of this system's files
mount --bind "$dir/up" "$root/run/changed"

cd "$root"
mkdir -p .old
pivot_root . .old
umount -l .old
rmdir .old
mount --make-rshared / # in a container systemd leaves this to others
exec env -i container=lockkeeper PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd --system --unit=machine.target --show-status=no
