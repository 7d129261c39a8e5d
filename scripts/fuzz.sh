#!/usr/bin/env bash
# Fuzzes every target whose name fits, one after the other: fuzz.sh TIME [REGEXP]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-1m} only=${2:-.}
failed=()
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
  for target in $(grep -hoP '^func \KFuzz\w+' "$dir"/*_test.go | grep -E -- "$only" || true); do
    echo "== $dir $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" || failed+=("$dir $target")
  done
done
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  echo 'the input is in testdata/fuzz of that directory: mend the code, and commit it' >&2
  exit 1
fi
