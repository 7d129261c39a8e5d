#!/usr/bin/env bash
# Draws docs/pictures/timeline.svg: the demo itself, for the ten seconds of its
# schedule in which the most happens.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin docs/pictures
go build -o bin/lockkeeper-pictures ./cmd/lockkeeper
while (( $(date +%-S) % 20 != 14 )); do sleep 0.2; done
bin/lockkeeper-pictures dev --for 10s --listen 127.0.0.1:0 --timeline docs/pictures/timeline.svg
rm bin/lockkeeper-pictures
