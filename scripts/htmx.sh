#!/usr/bin/env bash
# Fetches the scripts of the console from npm: htmx.sh [VERSION]. Prints their SHA-256, which belong into the test
# TestVendoredScriptsAreThoseOfThePackage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=${1:-4.0.1}
readonly into=observability/console/static

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$dir" && npm pack --silent "htmx.org@$version" >/dev/null && tar -xzf htmx.org-*.tgz)
cp "$dir/package/dist/htmx.min.js" "$dir/package/dist/ext/hx-sse.min.js" "$into/"
cp "$dir/package/LICENSE" "$into/htmx.LICENSE"
sha256sum "$into"/htmx.min.js "$into"/hx-sse.min.js "$into"/htmx.LICENSE
