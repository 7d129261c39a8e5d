#!/usr/bin/env bash
# Builds a release into dist/release, and publishes it if that is asked for. Called by the Makefile, which names the tools.
#
#   scripts/release.sh build VERSION     all of it, from a clean tree (DIRTY=1: from any); no tag, nothing is published
#   scripts/release.sh publish VERSION   the same from the tag vVERSION, to GitHub; takes GITHUB_TOKEN
#   scripts/release.sh files VERSION     what archives have beside the program, into dist/files; .goreleaser.yaml calls it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly what=${1:?} version=${2-}

fail() {
  printf 'release: %s\n' "$1" >&2
  exit 1
}

check() {
  [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION is \"$version\"; write it like make release VERSION=0.1.0"
  [[ $(git rev-parse --show-toplevel 2>/dev/null) -ef . ]] || fail "this is no git repository, which the date of a release comes from"
  if [[ ${DIRTY-} != 1 && -n $(git status --porcelain) ]]; then
    fail "there are changes that are not in a commit; commit or stash them, or build with DIRTY=1"
  fi
}

goreleaser() {
  rm -rf dist/files
  mkdir -p dist/files
  scripts/notes.sh "$version" >dist/files/notes.md
  # The environment decides nothing that is in the archives. GORELEASER is a command with arguments.
  # shellcheck disable=SC2086
  env -u GOAMD64 -u GOARM64 -u GOFLAGS GORELEASER_CURRENT_TAG="v$version" \
    $GORELEASER release --clean --release-notes dist/files/notes.md "$@"
}

files() {
  local out=dist/files
  mkdir -p "$out"/{bin,completions,man}
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  scripts/build.sh "$version" "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" "$out/bin/lockkeeper"
  "$out/bin/lockkeeper" completion bash >"$out/completions/lockkeeper.bash"
  "$out/bin/lockkeeper" completion fish >"$out/completions/lockkeeper.fish"
  "$out/bin/lockkeeper" completion zsh >"$out/completions/_lockkeeper"
  "$out/bin/lockkeeper" man "$out/man"
  go run ./integration/release/licenses >"$out/THIRD_PARTY_LICENSES"
  GOBIN=$PWD/$out/bin go install -ldflags=-w "$CYCLONEDX"
  for arch in amd64 arm64; do
    make --no-print-directory deb VERSION="${version/-/\~}" ARCH="$arch" OUT="$out/deb" # Debian sorts 0.1.0~rc.1 before 0.1.0
  done
}

case $what in
  files) files ;;
  build)
    check
    goreleaser --skip=announce,publish,validate
    cp dist/files/deb/*.deb dist/release
    # What the tool keeps for itself has paths and times in it; the programs are in the archives.
    rm -rf dist/release/{artifacts.json,config.yaml,metadata.json} dist/release/*/
    ls -l dist/release
    ;;
  publish)
    check
    git tag --points-at HEAD | grep -Fxq "v$version" || fail "the commit has no tag v$version"
    goreleaser
    ;;
  *) fail "unknown step $what" ;;
esac
