#!/usr/bin/env bash
# Looks for known vulnerabilities in what the code calls, by the Go vulnerability database: https://vuln.go.dev, or the
# one that GOVULNDB names (an https:// or file:// URL, for a mirror). Fails for findings. A database that cannot be
# reached is said, and is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly tool=golang.org/x/vuln/cmd/govulncheck@v1.9.0
readonly db=${GOVULNDB:-https://vuln.go.dev}

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install "$tool"

# check runs the tool in a module, on some packages.
check() {
  local status=0
  (cd "$1" && "$bin/govulncheck" -db "$db" "${@:2}") >"$bin/out" 2>&1 || status=$?
  if ((status != 0)) && grep -q '^govulncheck: .*fetching vulnerabilities' "$bin/out"; then
    sed 's/^/  /' "$bin/out"
    echo "vuln: NOT CHECKED, the database cannot be reached"
    exit 0
  fi
  if ((status != 0)); then
    cat "$bin/out"
    echo "vuln: FAILED in $1"
    exit 1
  fi
}

check . ./priority # one package: is the database there?
for module in . adapters/gocron; do
  check "$module" ./...
done
echo "vuln: passed"
