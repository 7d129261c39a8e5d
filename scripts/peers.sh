#!/usr/bin/env bash
# Makes sure that `make bench-peers` can start etcd and Redis, with which it compares: Debian's packages, which are installed
# when they are missing (10 MB to fetch, 30 MB of disk); no service of theirs runs, now or after the next start of the machine.
# What cannot be installed is said; the comparison does without, and says so in its table.
# Says nothing when there is nothing to do. `make bench-peers` runs it.
set -euo pipefail

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

# The same places as integration/peers looks in.
packages=()
command -v etcd >/dev/null || [[ -x /usr/bin/etcd ]] || packages+=(etcd-server)
command -v redis-server >/dev/null || [[ -x /usr/bin/redis-server ]] || packages+=(redis-server)
[[ ${#packages[@]} -gt 0 ]] || exit 0

without() {
  printf 'peers: %s\n' "$*" "The comparison does without: ${packages[*]}." >&2
  exit 0
}

command -v apt-get >/dev/null || without "${packages[*]} not found, and this system has no apt-get to install it with."
[[ $(id -u) -eq 0 ]] || command -v sudo >/dev/null || without "${packages[*]} not found. Run as root: apt-get install ${packages[*]}."

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" >&2
}

readonly policy=/usr/sbin/policy-rc.d

# Debian starts the service of a package when it is installed, unless this file says no: while it is not there, one of ours
# stands in for it.
printf 'peers: installing %s\n' "${packages[*]}" >&2
ours=
if [[ ! -e $policy ]]; then
  trap 'as_root rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
  ours=yes
fi
failed=
apt_install || { as_root apt-get update >&2 && apt_install; } || failed=yes
[[ -z $ours ]] || { as_root rm -f "$policy" && trap - EXIT; }
if command -v systemctl >/dev/null; then
  # Without systemd nothing starts them.
  as_root systemctl disable --quiet etcd.service redis-server.service 2>/dev/null || true
fi
[[ -z $failed ]] || without "apt-get could not install ${packages[*]}, see above."
