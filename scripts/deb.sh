#!/usr/bin/env bash
# Builds the Debian package of a version for an architecture into a directory: the same bytes each time. Its time is that of
# the commit, or SOURCE_DATE_EPOCH. Run it as `make deb`.
set -euo pipefail

readonly version=${1:?} arch=${2:?} out=${3:?}
# The newest version that builds Debian packages without a module for Windows' ones.
readonly nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ! $version =~ ^[0-9][0-9A-Za-z.+~-]*$ ]]; then
  printf 'deb: "%s" is no version of a Debian package; write it like 0.1.0\n' "$version" >&2
  exit 1
fi
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

readonly release=${version/\~/-} # 0.1.0~rc.1 is what others call 0.1.0-rc.1
scripts/build.sh "$release" linux "$arch" "$build/lockkeeper"
here=$build/lockkeeper
if [[ $arch != "$(go env GOHOSTARCH)" || $(go env GOHOSTOS) != linux ]]; then
  here=$build/here
  scripts/build.sh "$release" "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" "$here"
fi
for shell in bash fish zsh; do
  "$here" completion "$shell" >"$build/$shell"
done
SOURCE_DATE_EPOCH=$epoch "$here" man "$build/man"
gzip -9n "$build"/man/*
gzip -9nc CHANGELOG.md >"$build/changelog.gz"
go run -trimpath ./integration/release/licenses | gzip -9n >"$build/licenses.gz"

# Built like the program, the tool uses what has been compiled of Go for that.
mkdir -p "$out"
ARCH=$arch BUILD=$build SOURCE_DATE_EPOCH=$epoch VERSION=$version \
  CGO_ENABLED=0 go run -trimpath -ldflags=-w "$nfpm" package --config packaging/nfpm.yaml --packager deb --target "$out"
