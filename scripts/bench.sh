#!/usr/bin/env bash
# usage: bench.sh RELEASE BENCH COUNT [flags of go test]
#
# Runs the benchmarks on real servers and keeps their ratios, which are what another machine can be compared by, in integration/bench/results/RELEASE.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

release=$1 bench=$2 count=$3
shift 3
if [[ ! $release =~ ^[A-Za-z0-9._-]+$ ]]; then
  echo "bench: RELEASE=$release cannot be a file's name; write for example RELEASE=0.9.0" >&2
  exit 2
fi
kept=integration/bench/results/$release.txt
mkdir -p "${kept%/*}"
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT

go test -run '^$' -bench "$bench" -benchtime 1x -count "$count" -timeout 0 "$@" ./integration/bench/... | tee "$printed"
awk -f scripts/ratios.awk "$printed" >"$kept.new"
mv "$kept.new" "$kept"
echo "bench: the ratios are in $kept; make bench-compare OLD=next NEW=$release"
