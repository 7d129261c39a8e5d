#!/usr/bin/env bash
# Validates the manifests for Kubernetes with kubectl-validate, which has the schemas of Kubernetes built in. Kinds of the
# Prometheus operator are not among them: the tests of packaging/container decode those.
#
# `make manifests-check` runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly validate=sigs.k8s.io/kubectl-validate@v0.0.4 kubernetes=1.30

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd packaging/container && go run ./cmd/manifests -out "$out" ../kubernetes/example)
rm -f "$out"/{servicemonitor,prometheusrule}-*.yaml
go run "$validate" --version "$kubernetes" "$out"
