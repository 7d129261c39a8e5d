SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup unit test test-full test-rest flaky packages release publish release-check test-temporal-next diff model lint vuln fmt bench bench-compare bench-peers soak clocks fuzz robust robust-sum robust-bugs simulate steps limits deadlines bench-temporal demo demo-temporal deb pictures image manifests manifests-check clean

# To change for one run: make test RACE= TESTFLAGS='-run Preempt -v'
RACE ?= -race
TESTFLAGS ?=
TIMEOUT ?= 10m
BENCH ?= .
BENCHFLAGS ?=
RELEASE ?= working
VERSION ?=
ARCH ?= amd64
COUNT ?= 1
OLD ?= next
NEW ?= working
STEPS ?= 1000000
FUZZTIME ?= 1m
FUZZ ?= .
SOAK ?= 10m
CLOCKS ?= 5m
DURATION ?= 10m
CLIENTS ?= 12
OUT ?= dist/robust
BUG ?=
PAIRS ?= 400
DEADLINES ?=
PEERS ?=
WORK ?=
SERVERS ?=
ROUNDS ?= 5
PEERSFLAGS ?=
JOBS ?= 1000 10000 100000 1000000
SIMULATE ?=
SEED ?= $(shell echo $$RANDOM)
N ?= 20
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
PKG ?=
DIRTY ?=

# What would be kept in a home directory that cannot be written is kept in bin.
ifeq ($(shell mkdir -p "$${XDG_CACHE_HOME:-$$HOME/.cache}" 2>/dev/null && test -w "$${XDG_CACHE_HOME:-$$HOME/.cache}" && echo yes),)
export XDG_CACHE_HOME := $(CURDIR)/bin/cache
endif
ifeq ($(shell mkdir -p "$$(go env GOMODCACHE)" 2>/dev/null && test -w "$$(go env GOMODCACHE)" && echo yes),)
export GOPATH := $(CURDIR)/bin/go
endif

# Runs the suite in parts and ends with one summary. Built like releases, it has much of Go in common with them.
TESTRUN := go run -trimpath ./integration/testrun
TESTRUNFLAGS := $(if $(RACE),,-race=false) $(if $(TESTFLAGS),-flags '$(TESTFLAGS)')

RESULTS := integration/bench/results
BENCHSTAT := go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONLINT := go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# The newest that Go 1.26 builds from modules alone. GORELEASER=FILE names one that is built already.
export GORELEASER ?= go run -ldflags=-w github.com/goreleaser/goreleaser/v2@v2.16.0
export CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Find ZooKeeper ($ZOOKEEPER_HOME, else Debian's package), Prometheus, Chromium and Temporal ($TEMPORAL_CLI, else the cache); install, or build, what is missing
	@scripts/setup.sh

unit: ## Test what needs no server: all packages, without sweeps, schedules at random, scripts of the program and what takes long; with the race detector
	@$(TESTRUN) unit $(TESTRUNFLAGS)

test: packages ## Test what a newcomer must see pass: everything in virtual time and on the embedded ZooKeeper, the main things on real servers; with the race detector
	@$(TESTRUN) test $(TESTRUNFLAGS)

test-full: packages ## Test all of it: everything on real ZooKeeper and Temporal servers and in a real browser, too
	@$(TESTRUN) full $(TESTRUNFLAGS)

test-rest: packages ## Test what test-full tests beside test
	@$(TESTRUN) rest $(TESTRUNFLAGS)

flaky: setup ## Run tests N times in random order, on 1 to 16 processors, with and without busy loops, and print a table of failures (N=20 PKG='./recipes/lock ./integration/locks')
	@$(TESTRUN) flaky -n $(N) $(PKG)

packages:
	@scripts/setup.sh packages

test-temporal-next: setup ## Test on Temporal's newest server that can be built, by hand: standalone activities, pushed cancellation (the first run builds it: many minutes)
	cd integration/temporalserver/next && go vet . && go build -o '$(CURDIR)/bin/temporal-next' .
	TEMPORAL_CLI='$(CURDIR)/bin/temporal-next' go test -p 2 $(RACE) -timeout $(TIMEOUT) -tags temporalnext -skip 'WhileTheTemporalServerIsStopped' $(TESTFLAGS) ./integration/temporal/...

diff: setup ## Compare the embedded ZooKeeper with a real one, frame by frame (STEPS=n SEED=n), for as long as that takes
	go test ./integration/zkdiff -run Embedded -v -timeout 0 -args -steps $(STEPS) -seed $(SEED)

model: ## Check the lock protocol by machine, in every state of every configuration; and what each guard is for; four minutes, one gigabyte
	go run ./recipes/lock/model/check

fuzz: ## Put anything into all that is parsed, one target after the other (FUZZTIME=1m or 2000x for each, FUZZ=regexp); what breaks is kept in testdata/fuzz
	@scripts/fuzz.sh '$(FUZZTIME)' '$(FUZZ)'

lint: ## Check style, import table and formatting (the first run builds the linter: minutes)
	$(ACTIONLINT)
	$(GOLANGCI) run ./...
	cd adapters/gocron && $(GOLANGCI) run -c ../../.golangci.yml ./...
	cd integration/schedulers && $(GOLANGCI) run -c ../../.golangci.yml ./...
	cd integration/peers && $(GOLANGCI) run -c ../../.golangci.yml ./...
	cd packaging/container && $(GOLANGCI) run -c ../../.golangci.yml ./...
	cd integration/observability/console && $(GOLANGCI) run -c ../../../.golangci.yml ./...

release: ## Build a release into dist/release, publish nothing: archives, packages, SBOMs, checksums (VERSION=0.1.0; DIRTY=1: with changes in no commit); builds GoReleaser: minutes
	@DIRTY='$(DIRTY)' scripts/release.sh build '$(VERSION)'

publish: ## Build the release of a tag and publish it on GitHub: the workflow release does it (VERSION=0.1.0)
	@scripts/release.sh publish '$(VERSION)'

release-check: ## Build the release of the last commit twice, in two places, and compare each byte; look at archives and SBOMs (VERSION=0.1.0); a quarter of an hour
	@scripts/release-check.sh '$(VERSION)'

vuln: ## Look for known vulnerabilities in what the code calls (GOVULNDB=url for a mirror of the database)
	@scripts/vuln.sh

fmt: ## Format the code as lint wants it
	$(GOLANGCI) fmt ./...

bench: setup ## Measure speed against go-zookeeper on real servers, and keep the ratios as those of RELEASE (BENCH=name to choose, COUNT=n times)
	@scripts/bench.sh '$(RELEASE)' '$(BENCH)' '$(COUNT)' $(BENCHFLAGS)

bench-compare: ## Compare the ratios of two releases with benchstat: what got slower, and is it more than chance (OLD=next NEW=working)
	$(BENCHSTAT) '$(RESULTS)/$(OLD).txt' '$(RESULTS)/$(NEW).txt'

simulate: ## Run 1,000 daemons and 1,000 to 1,000,000 jobs (JOBS="1000 100000") in virtual time against a modelled ZooKeeper; ten minutes, 6 GiB
	for jobs in $(JOBS); do go test ./integration/simulation -run 'TestSimulation$$' -v -timeout 60m -args -daemons 1000 -jobs $$jobs -copies 1 -sharing 1000 -window 1m -schedule 'H H * * * *' $(SIMULATE); done

steps: ## Break something at each step of each recipe, all cases (PAIRS=n SEED=n: two faults at a time as well); a quarter of an hour
	go test ./integration/steps -timeout 0 -args -every 1 -long -pairs $(PAIRS) -seed $(SEED)

limits: setup ## Ten thousand waiters, ten thousand locks, a million cycles, requests as long as they may be; prints what each costs. A quarter of an hour
	go test ./integration/limits -v -count 1 -timeout 0 $(TESTFLAGS) -args -full

deadlines: setup ## Kill, stop and cut off servers of real ensembles right after an answer, and measure how long before the next grant a holder learns of its loss (DEADLINES='-voters 3 -ticks 2s'); an hour
	go test -tags deadlines ./integration/deadlines -v -count 1 -timeout 0 -args -whole $(DEADLINES)

clocks: setup ## Let five daemons whose clocks are wrong run 200 jobs a second for CLOCKS=5m, and look when each tick ran
	go test ./integration/daemons -run TestDaemonsWithWrongClocksHarmNoTick -v -count 1 -timeout 0 -args -clocks $(CLOCKS) -clocks-jobs 200

soak: setup ## Stop, kill and pause daemons at random for SOAK=10m, and compare the ledger with what has happened
	go test $(RACE) ./integration/daemons -run TestEveryTickRunsOnceOrItsSkipHasAReason -v -count 1 -timeout 0 -args -soak $(SOAK) -soak-cast 'soak 500'

robust: setup ## Break servers, networks and clients at random for DURATION, judge what clients were told (SEED=n CLIENTS=n); integration/robust/README.md
	go run ./integration/robust/cmd run -duration $(DURATION) -seed $(SEED) -clients $(CLIENTS) -out $(OUT)

robust-sum: ## Add up the reports of `make robust`
	go run ./integration/robust/cmd sum $(OUT)/report-*.json

robust-bugs: setup ## Plant bugs into the product, and see each found by the robustness suite (BUG=name to choose); twenty minutes
	go run ./integration/robust/cmd bugs -each 3m $(BUG)

bench-peers: setup ## Measure our locks against the limit, zk.Lock, Curator, Kazoo, etcd and Redis on the same servers (PEERS= WORK= SERVERS= ROUNDS= PEERSFLAGS='-markdown FILE'); forty minutes
	@scripts/peers.sh
	cd integration/peers && go build -o '$(CURDIR)/bin/peers' ./cmd && '$(CURDIR)/bin/peers' -rounds '$(ROUNDS)' -peers '$(PEERS)' -work '$(WORK)' -servers '$(SERVERS)' $(PEERSFLAGS)

bench-schedulers: setup ## Measure what ten thousand jobs cost, against robfig/cron and gocron (BENCH=AtRest|Ticks); ten minutes
	cd integration/schedulers && go test -run '^$$' -bench '$(BENCH)' -timeout 20m $(BENCHFLAGS) .

bench-temporal: setup ## Measure locks of activities and workflows against those that Temporal's own means make, and how soon an activity knows that it has to go; ten minutes
	go test -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 30m $(BENCHFLAGS) ./integration/temporal/peers

demo: ## Show it at work for half a minute: two daemons, jobs that preempt each other, real files; needs Go alone
	go run ./cmd/lockkeeper dev --for 25s

demo-temporal: setup ## Show a workflow under a lock and an emergency, on a Temporal server with its web interface, until Ctrl-C
	go run ./examples/temporal --ui

deb: OUT := $(if $(filter command line environment,$(origin OUT)),$(OUT),dist/deb)
deb: ## Build the Debian package, the same bytes for the same commit (VERSION=0.1.0 ARCH=amd64|arm64 OUT=dist/deb)
	@scripts/deb.sh '$(VERSION)' '$(ARCH)' '$(OUT)'

pictures: ## Draw the timeline at the top of the README anew, from a run of the demo; look at it before it is committed
	@scripts/pictures.sh

image: ## Build the container image for linux/amd64 and arm64 from the Dockerfile, without Docker (VERSION=0.1.0 OUT=file CERTIFICATES=file); two builds are equal
	cd packaging/container && go run ./cmd/image -root '$(CURDIR)' -version '$(or $(VERSION),0.0.0-devel)' -certificates '$(CERTIFICATES)' \
	  -revision "$$(git rev-parse HEAD 2>/dev/null || echo unknown)" -time "$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)}" \
	  $(if $(filter file,$(origin OUT)),,-out '$(abspath $(OUT))')

manifests: ## Write the manifests for Kubernetes that are made from other files
	cd packaging/container && go test . -run PrometheusRule -update

manifests-check: ## Validate what kustomize makes of the manifests against the schemas of Kubernetes (the first run builds the validator: minutes)
	@scripts/manifests.sh

clean: ## Remove what builds, tests and benchmarks leave behind
	rm -rf bin dist coverage.out
	find . -not -path './.git/*' -type f \( -name '*.test' -o -name '*.prof' \) -print -delete
	go clean -testcache
