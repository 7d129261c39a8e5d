SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup unit test lint fmt bench demo clean

# To change for one run: make test RACE= TESTFLAGS='-run Preempt -v'
RACE ?= -race
TESTFLAGS ?=
TIMEOUT ?= 10m
BENCH ?= .
BENCHFLAGS ?=

GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Find ZooKeeper ($ZOOKEEPER_HOME, else Debian's package), install it if need be
	@scripts/setup.sh

unit: ## Test all packages that need no server, with the race detector
	go test $(RACE) -timeout 5m $(TESTFLAGS) $$(go list ./... | grep -Ev '/(examples|integration)(/|$$)')

test: setup ## Test everything, on real ZooKeeper servers too, with the race detector
	go test $(RACE) -timeout $(TIMEOUT) $(TESTFLAGS) ./...

lint: ## Check style, import table and formatting (the first run builds the linter: minutes)
	$(GOLANGCI) run ./...

fmt: ## Format the code as lint wants it
	$(GOLANGCI) fmt ./...

bench: setup ## Measure speed against go-zookeeper on real servers (BENCH=name to choose)
	go test -run '^$$' -bench '$(BENCH)' -timeout 60m $(BENCHFLAGS) ./integration/bench/...

demo: ## Show it at work for half a minute: two daemons, jobs that preempt each other, real files; needs Go alone
	go run ./cmd/lockkeeper dev --for 25s

clean: ## Remove what builds, tests and benchmarks leave behind
	rm -rf bin dist coverage.out
	find . -not -path './.git/*' -type f \( -name '*.test' -o -name '*.prof' \) -print -delete
	go clean -testcache
