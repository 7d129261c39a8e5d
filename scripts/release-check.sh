#!/usr/bin/env bash
# Builds the release of the last commit in two clones, in two places, and lets tests compare them and look at what is in
# them: integration/release, build tag release. COLD=1 builds the second with an empty cache, which takes much longer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly version=${1:?VERSION is missing; write it like make release-check VERSION=0.1.0}

# shellcheck disable=SC2086 # a command with arguments
$GORELEASER check

commit=$(git rev-parse HEAD) # of both, whatever is committed meanwhile
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
for place in first 'another/place/with a longer name'; do
  git clone --quiet --no-checkout . "$work/$place"
  git -C "$work/$place" checkout --quiet --detach "$commit"
  [[ ${COLD-} != 1 || $place == first ]] || export GOCACHE=$work/cache
  make -C "$work/$place" --no-print-directory release VERSION="$version"
  printf 'release: %s after %ss\n' "$place" "$SECONDS"
done
go test -tags release ./integration/release -run 'Release$' -count 1 -v \
  -args -version "$version" -first "$work/first/dist/release" -second "$work/another/place/with a longer name/dist/release"
cat "$work/first/dist/release/lockkeeper_${version}_SHA256SUMS"
