#!/usr/bin/env bash
# Makes sure that the tests can start real ZooKeeper servers: $ZOOKEEPER_HOME if set, else Debian's package, which is
# installed when it is missing. So is a C compiler, which links the race detector. So are Kazoo and Curator, the other
# people's clients that integration/clients plays on real servers and on ours: with ZooKeeper there they take 3 MB to fetch,
# 9 MB of disk, and 7 seconds. And libfaketime, by which integration/nemesis steps the servers' clocks. And Prometheus and
# Chromium, with which integration/observability looks at dashboards, rules and the console: they are started by tests
# alone, no service runs afterwards. And systemd, which integration/packages starts in namespaces of its own.
# Says nothing when there is nothing to do. Run it as `make setup`. With "packages" it installs, and with "temporal" it
# builds: the tests need the servers first, and Temporal, which takes minutes to build, last.
set -euo pipefail

readonly what=${1:-all}

readonly debian_jar=/usr/share/java/zookeeper.jar
readonly debian_curator=/usr/share/java/curator-recipes.jar
readonly debian_compiler=/usr/share/java/eclipse-jdt-core.jar
readonly debian_kazoo=/usr/lib/python3/dist-packages/kazoo/client.py

fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

# The same places in the same order as integration/zkserver looks in.
zookeeper_found() {
  if [[ -n ${ZOOKEEPER_HOME:-} ]]; then
    compgen -G "$ZOOKEEPER_HOME/zookeeper*.jar" >/dev/null || compgen -G "$ZOOKEEPER_HOME/lib/zookeeper*.jar" >/dev/null
  else
    [[ -e $debian_jar ]]
  fi
}

java_found() {
  if [[ -n ${JAVA_HOME:-} ]]; then
    [[ -x $JAVA_HOME/bin/java ]]
  else
    command -v java >/dev/null
  fi
}

# Like integration/clients: Debian's Python, else the one on PATH.
kazoo_found() {
  [[ -e $debian_kazoo ]] || python3 -c 'import kazoo.client' 2>/dev/null
}

curator_found() {
  if [[ -n ${CURATOR_HOME:-} ]]; then
    compgen -G "$CURATOR_HOME/curator-recipes*.jar" >/dev/null
  else
    [[ -e $debian_curator ]]
  fi
}

# Debian's ZooKeeper brings this compiler with it.
compiler_found() {
  [[ -e $debian_compiler || -x ${JAVA_HOME:-}/bin/javac ]] || command -v javac >/dev/null
}

# What the go command looks for before it links the race detector.
c_compiler_found() {
  local cc=${CC:-gcc}
  command -v "${cc%% *}" >/dev/null
}

# The same place as integration/zkserver looks in.
faketime_found() {
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null
}

prometheus_found() {
  command -v prometheus >/dev/null && command -v promtool >/dev/null
}

chromium_found() {
  command -v chromium >/dev/null
}

systemd_found() {
  [[ -x /usr/lib/systemd/systemd || -x /lib/systemd/systemd ]] && command -v systemd-analyze >/dev/null
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

readonly policy=/usr/sbin/policy-rc.d

# Debian starts the service of a package when it is installed, unless this file says no: while it is not there, one of ours
# stands in for it. And no service of a package that came for the tests is started with the machine.
install_packages() {
  printf 'setup: installing %s\n' "$*" >&2
  local ours=
  if [[ ! -e $policy ]]; then
    trap 'as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    ours=yes
  fi
  local failed=
  # The package lists may be missing or old: fetch them only then.
  apt_install "$@" >&2 || { as_root apt-get update >&2 && apt_install "$@" >&2; } || failed=yes
  [[ -z $ours ]] || { as_root rm -f "$policy" && trap - EXIT; }
  if [[ " $* " == *" prometheus "* ]] && command -v systemctl >/dev/null; then
    as_root systemctl disable --quiet prometheus.service 2>/dev/null || true # without systemd nothing starts it
  fi
  [[ -z $failed ]]
}

find_packages() {
  if [[ -n ${ZOOKEEPER_HOME:-} ]] && ! zookeeper_found; then
    fail "ZOOKEEPER_HOME=$ZOOKEEPER_HOME holds no zookeeper-<version>.jar, neither directly nor in lib." \
      "Set it to an unpacked Apache ZooKeeper release, or unset it to use Debian's package."
  fi
  if [[ -n ${JAVA_HOME:-} ]] && ! java_found; then
    fail "JAVA_HOME=$JAVA_HOME has no bin/java." "Correct it, or unset it to use java from PATH."
  fi

  if [[ -n ${CURATOR_HOME:-} ]] && ! curator_found; then
    fail "CURATOR_HOME=$CURATOR_HOME holds no curator-recipes-<version>.jar." \
      "Put Curator's jars and those that they need there, or unset it to use Debian's package."
  fi

  packages=()
  zookeeper_found || packages+=(zookeeper)
  java_found || packages+=(default-jre-headless)

  clients=()
  c_compiler_found || clients+=(gcc libc6-dev)
  kazoo_found || clients+=(python3-kazoo)
  curator_found || clients+=(libcurator-recipes-java)
  compiler_found || clients+=(libeclipse-jdt-core-java)
  faketime_found || clients+=(libfaketime)
  prometheus_found || clients+=(prometheus)
  chromium_found || clients+=(chromium)
  systemd_found || clients+=(systemd)
  if [[ ${#clients[@]} -gt 0 ]]; then
    if command -v apt-get >/dev/null; then
      packages+=("${clients[@]}")
    else
      # Most of the tests, the benchmarks and the demonstration do without.
      printf 'setup: %s\n' "${clients[*]} not found, and this system has no apt-get to install it with: the tests in" \
        "integration/clients, zkserver, nemesis, observability and packages that need it will fail, and say so." \
        "The race detector needs gcc in all tests; \`make test RACE=\` does without it." >&2
    fi
  fi

  if [[ ${#packages[@]} -gt 0 ]]; then
    what_to_do="Install a Java runtime, unpack a release from https://zookeeper.apache.org/releases.html, and set ZOOKEEPER_HOME to it."
    command -v apt-get >/dev/null ||
      fail "${packages[*]} not found, and this system has no apt-get to install it with." "$what_to_do"
    if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
      fail "${packages[*]} not found. Run as root: apt-get install ${packages[*]}" "Or: $what_to_do"
    fi
    install_packages "${packages[@]}" || fail "apt-get could not install ${packages[*]}, see above." "$what_to_do"
    zookeeper_found || fail "the package zookeeper is installed, but there is no $debian_jar." "$what_to_do"
    java_found || fail "still no java on PATH." "$what_to_do"
    c_compiler_found || fail "the package gcc is installed, but there is no ${CC:-gcc} on PATH." \
      "If CC is set, correct it, or unset it."
    kazoo_found || fail "the package python3-kazoo is installed, but there is no $debian_kazoo."
    curator_found || fail "the package libcurator-recipes-java is installed, but there is no $debian_curator."
    faketime_found || fail "the package libfaketime is installed, but there is no /usr/lib/*/faketime/libfaketimeMT.so.1."
    prometheus_found || fail "the package prometheus is installed, but there is no prometheus or no promtool on PATH."
    chromium_found || fail "the package chromium is installed, but there is no chromium on PATH."
    systemd_found || fail "the package systemd is installed, but there is no systemd or no systemd-analyze."
    compiler_found || fail "the package libeclipse-jdt-core-java is installed, but there is no $debian_compiler."
  fi
}

build_temporal() {
  # The same place as integration/temporal/devserver looks in.
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  temporal_version=$(sed -n 's|.*github\.com/temporalio/cli v\([^ ]*\).*|\1|p' "$root/integration/temporalserver/go.mod")
  readonly root temporal_version
  if [[ -n ${TEMPORAL_CLI:-} ]]; then
    command -v "$TEMPORAL_CLI" >/dev/null ||
      fail "TEMPORAL_CLI=$TEMPORAL_CLI cannot be run." "Correct it, or unset it to have Temporal's program built."
  else
    temporal=${XDG_CACHE_HOME:-$HOME/.cache}/lockkeeper/temporal-$temporal_version
    if [[ ! -x $temporal ]]; then
      printf 'setup: building Temporal %s, once, into %s: this takes some minutes\n' "$temporal_version" "$temporal" >&2
      mkdir -p "$(dirname "$temporal")"
      # Another process may build it, too: the last one replaces a whole file by a whole file. It is built as releases are:
      # they share what is compiled of Go itself.
      (cd "$root/integration/temporalserver" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$temporal.$$" github.com/temporalio/cli/cmd/temporal) ||
        fail "Temporal could not be built, see above." "Or set TEMPORAL_CLI to Temporal's program: https://docs.temporal.io/cli"
      mv "$temporal.$$" "$temporal"
    fi
  fi
}

case $what in
  all)
    find_packages
    build_temporal
    ;;
  packages) find_packages ;;
  temporal) build_temporal ;;
  *) fail "$what is nothing to set up." "Write packages or temporal, or nothing for both." ;;
esac
