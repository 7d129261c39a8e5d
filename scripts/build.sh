#!/usr/bin/env bash
# Builds the program as releases have it: the same bytes wherever the commit lies. .goreleaser.yaml has the same flags; a
# test compares them.
#
#   scripts/build.sh VERSION OS ARCH FILE
set -euo pipefail
readonly version=${1:?} os=${2:?} arch=${3:?}
file=$(realpath -m "${4:?}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export GOOS=$os GOARCH=$arch GOAMD64=v1 GOARM64=v8.0
CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -buildvcs=auto -ldflags "-s -w -X main.release=v$version" -o "$file" ./cmd/lockkeeper
