#!/usr/bin/env bash
# Prints what CHANGELOG.md says of a version: its section, or the one that is not released yet if it names the version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

awk -v version="${1:?}" '
  /^## / { found = index($0 " ", "[" version "]") || index($0, "[Unreleased]: " version ","); any = any || found; next }
  found { print }
  END { if (!any) { print "notes: CHANGELOG.md has no section of " version > "/dev/stderr"; exit 1 } }
' CHANGELOG.md
