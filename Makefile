# Every variable can be overridden: make test-integration INTEGRATION_FLAGS='-count=1 -run TestCrash_killed'
GO                ?= go
BIN               ?= $(CURDIR)/bin
CACHE             ?= $(CURDIR)/.cache
TOOLS             ?= $(CACHE)/bin
GOLANGCI_VERSION  ?= v2.15.0
GOTESTSUM_VERSION ?= v1.13.0
GOVULN_VERSION    ?= v1.2.0
GORELEASER_VERSION ?= v2.16.0
VERSION           ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT            ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS           ?= -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# Flags of go test for the unit tests, the integration tests, and the benchmarks. go test does not see what a child
# process tested, so that its cache would be wrong: -count=1. Tests of e2e mostly wait: four at a time.
TEST_FLAGS        ?= -p 4
INTEGRATION_FLAGS ?= -p 2 -parallel 4 -timeout 30m -count=1
BENCH_FLAGS       ?= -bench . -benchmem
# How tests are compiled, besides CGO_ENABLED=0: as a release is, so that nothing is compiled twice. make lint runs vet.
COMPILE           := -trimpath -vet=off -ldflags=-w
# How other tools compile, for the same reason.
AS_RELEASED       := CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -trimpath"
# The packages with goroutines, whose tests run with the race detector, and only with it. The longest comes first, so
# that the last one does not run alone.
RACE              ?= ./internal/bridge/... ./source/... ./sink/... ./checkpoint/... ./internal/app/... \
	./internal/cli/... ./internal/election ./internal/kafka/... ./internal/event/... ./internal/tail/...
# The packages of integration tests in make test: those that are quick to compile and need no node. Their tests on Kafka
# need Java.
CORE              ?= ./cmd/... ./controlplane/... ./e2e ./faults/broken ./faults/oracle ./internal/... ./kafkacheckpoint \
	./kafkasink ./schema
# The directory that a run of tests leaves its results in, and how many of them are kept.
RESULTS           := $(or $(RESULTS),$(CACHE)/times/$(shell date +%Y%m%d-%H%M%S))
RESULTS_KEPT      ?= 20
RECORDED          := $(CURDIR)/integration/testtimes.json
# The tiers whose times make record-times records, and the machine that does it.
TIERS             ?= core all faults
MACHINE           ?= $(shell nproc) cores, $(shell sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)
# The test that make one runs, and what more go test is told.
T                 ?=
ONE_FLAGS         ?=
# Faults to inject with make faults, their seed, how many worlds are broken at a time, what the bridge publishes to (nats
# or kafka), and how many bridges run there: 0 for one without a Lease, 2, 3, or any, which draws it. Results are kept by
# commit, and by whether the tree is as committed, so that the same command goes on where it was cut short.
FAULTS            ?= 60
SEED              ?= 1
WORLDS            ?= 2
BROKER            ?= nats
REPLICAS          ?= any
# In which rounds of make faults-replicate the clusters replicate into each other: none, some or all.
BOTH              ?= some
FAULTS_FLAGS      ?=
FAULTS_TESTS      := ./faults/world ./faults/outage ./faults/campaign ./faults/replicas
FAULTS_DIR        ?= $(CACHE)/faults/$(COMMIT)$(shell test -z "$$(git status --porcelain 2>/dev/null)" || echo -dirty)$(BROKER:%=-%)-$(REPLICAS)
# How many faults make nightly injects in each of its campaigns, and their seed.
NIGHTLY_FAULTS    ?= 300
NIGHTLY_SEED      ?= $(shell date +%Y%m%d)
# The image: what it is called, the platforms it is for, where it is also pushed to (nowhere if empty), and where its code is published.
IMAGE             ?= localhost/kube-eventbridge:$(VERSION)
IMAGE_FILE        ?= $(CURDIR)/dist/kube-eventbridge-image.tar
IMAGE_PLATFORMS   ?= linux/$(shell $(GO) env GOARCH)
IMAGE_PUSH        ?=
IMAGE_SOURCE      ?= https://github.com/kube-eventbridge/kube-eventbridge
# The race detector needs a C compiler.
CC                := $(shell $(GO) env CC)
MODULES           := . integration integration/containers

GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
GOTESTSUM := $(TOOLS)/gotestsum-$(GOTESTSUM_VERSION)
TESTREPORT := $(TOOLS)/testreport
GOVULN   := $(TOOLS)/govulncheck-$(GOVULN_VERSION)
GORELEASER := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)

.DEFAULT_GOAL := help
.SUFFIXES:

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Show the whole way on a real API server; DEMO_KEEP=1 leaves it running
	@cd integration && CGO_ENABLED=0 $(GO) run -trimpath ./cmd/demo

.PHONY: demo-replicate
demo-replicate: ## Show two clusters, a failover and a failback; DEMO_KEEP=1 leaves them running
	@cd integration && CGO_ENABLED=0 $(GO) run -trimpath ./cmd/demo replicate

.PHONY: build
build: ## Build a static binary, bin/kube-eventbridge
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/kube-eventbridge ./cmd/kube-eventbridge

.PHONY: image
image: ## Make a container image, dist/kube-eventbridge-image.tar, an OCI archive; needs no engine. IMAGE_PUSH=registry/name:tag also pushes it
	cd integration && $(GO) run ./cmd/image -version '$(VERSION)' -commit '$(COMMIT)' -created "$$(git log -1 --format=%ct)" -source '$(IMAGE_SOURCE)' \
		-platforms '$(IMAGE_PLATFORMS)' -name '$(IMAGE)' -out '$(IMAGE_FILE)' -push '$(IMAGE_PUSH)'

# suite runs parts of the tests in a tier, and then reports. A part that fails does not keep the others from running.
define suite
	@mkdir -p '$(RESULTS)'; echo $(1) >'$(RESULTS)/tier'; \
	rm -f '$(RESULTS)/later'; \
	ls -d '$(CACHE)'/times/*-* | head -n -$(RESULTS_KEPT) | xargs -r rm -rf; \
	KUBE_EVENTBRIDGE_TIER=$(subst faults,all,$(1)) $(MAKE) --no-print-directory -k RESULTS='$(RESULTS)' $(2); code=$$?; \
	$(TESTREPORT) calibrate >>'$(RESULTS)/calibration'; \
	$(TESTREPORT) report -recorded $(RECORDED) '$(RESULTS)' || code=1; \
	exit $$code
endef

# gotest runs go test in a directory and keeps its results under a name: $(call gotest,name,directory,arguments). How fast
# the machine is then is measured first, because other work may come and go.
gotest = $(TESTREPORT) calibrate >>'$(RESULTS)/calibration' && cd $(2) && $(GOTESTSUM) --format pkgname --hide-summary skipped --jsonfile '$(RESULTS)/$(1).json' -- $(3)
# What go test would build without showing any progress.
.PHONY: servers
servers:
	@cd integration && CGO_ENABLED=0 $(GO) run -trimpath ./cmd/servers $(SERVERS_FLAGS)

.PHONY: test
test: tools servers ## Run what a change needs most: unit tests, the race detector, the core of the integration tests; 6 minutes
	$(call suite,core,part-unit part-race part-core)

.PHONY: test-all
test-all: tools servers ## Run all tests but those with faults and those of make nightly; 15 minutes
	$(call suite,all,part-unit part-race part-integration part-containers)

.PHONY: test-unit
test-unit: tools ## Run the tests that need nothing but Go
	$(call suite,all,part-unit part-race)

.PHONY: test-race
test-race: tools ## Run the tests of packages with goroutines under the race detector
	$(call suite,all,part-race)

.PHONY: test-integration
test-integration: tools servers ## Run the tests on a real API server and real brokers; the first time builds them
	$(call suite,all,part-integration)

.PHONY: test-containers
test-containers: tools ## Run the tests with brokers and an API server in containers; needs a Docker engine
	$(call suite,all,part-containers)

.PHONY: test-node
test-node: SERVERS_FLAGS = -node
test-node: tools servers ## Run the tests of the chart on a cluster with a node; needs root and containerd
	$(call suite,all,part-node)

.PHONY: test-faults
test-faults: SERVERS_FLAGS = -clock
test-faults: tools servers ## Break everything, each fault once and then at random, and judge the log; 9 minutes
	$(call suite,faults,part-faults)

.PHONY: one
one: $(TESTREPORT) ## Run one test of any package: make one T=TestReload_moves, or T=TestBridge/leaving
	@CGO_ENABLED=0 $(TESTREPORT) one '$(T)' $(COMPILE) $(ONE_FLAGS)

.PHONY: record-times
record-times: tools servers ## Record how long packages take, on a quiet machine; TIERS says of which tiers
	@set -e; for tier in $(TIERS); do \
		case $$tier in core) target=test ;; all) target=test-all ;; *) target=test-$$tier ;; esac; \
		$(MAKE) --no-print-directory $$target RESULTS='$(RESULTS)'/$$tier TEST_FLAGS='$(TEST_FLAGS) -count=1'; \
		$(TESTREPORT) record -machine '$(MACHINE)' -recorded $(RECORDED) '$(RESULTS)'/$$tier; \
	done

# The parts that these targets are made of. All but the race detector compile as a release is compiled.
PARTS := part-unit part-race part-core part-integration part-containers part-node part-faults
.PHONY: $(PARTS)
$(PARTS): export CGO_ENABLED = 0

part-unit:
	@$(call gotest,unit,.,$(COMPILE) $(TEST_FLAGS) \
		$$($(GO) list ./... | grep -vxF "$$(test -z '$(RACE)' || $(GO) list $(RACE))"))

part-race:
ifneq ($(strip $(RACE)),)
	@if command -v $(firstword $(CC)) >/dev/null; then \
		export CGO_ENABLED=1; $(call gotest,race,.,-race -vet=off -ldflags=-w $(TEST_FLAGS) $(RACE)); \
	else \
		echo 'NOT RUN: the race detector needs a C compiler, such as gcc; its tests run without it' | \
			tee -a '$(RESULTS)/not-run' >&2; \
		$(call gotest,race,.,$(COMPILE) $(TEST_FLAGS) $(RACE)) && test -z "$$CI"; \
	fi
endif

# The other integration tests are noted, for the report.
part-core:
	@(cd integration; $(GO) list $(FAULTS_TESTS) | sed 's/$$/ make test-faults/'; \
		$(GO) list ./... | grep -vxF "$$($(GO) list $(CORE) $(FAULTS_TESTS))" | sed 's/$$/ make test-all/'; \
		cd containers; $(GO) list ./... | sed 's/$$/ make test-all/') >>'$(RESULTS)/later'
	@$(call gotest,integration,integration,$(COMPILE) $(INTEGRATION_FLAGS) $(CORE))

part-integration:
	@(cd integration && $(GO) list $(FAULTS_TESTS) | sed 's/$$/ make test-faults/') >>'$(RESULTS)/later'
	@$(call gotest,integration,integration,$(COMPILE) $(INTEGRATION_FLAGS) \
		$$($(GO) list ./... | grep -vxF "$$($(GO) list $(FAULTS_TESTS))"))

part-containers:
	@$(call gotest,containers,integration/containers,$(COMPILE) $(INTEGRATION_FLAGS) ./...)

part-node:
	@$(call gotest,node,integration,$(COMPILE) $(INTEGRATION_FLAGS) ./node)

part-faults:
	@$(call gotest,faults,integration,$(COMPILE) $(INTEGRATION_FLAGS) -timeout 45m $(FAULTS_TESTS))

# Each step runs also if one before it failed. What one cannot do here it says.
NIGHTLY := nightly-tests nightly-race nightly-actions nightly-nats nightly-kafka nightly-replicas changes reproducible vuln
.PHONY: nightly $(NIGHTLY)
nightly: ## Run everything, with stress, fresh seeds and a bridge built with the race detector; hours
	@$(MAKE) --no-print-directory -k RESULTS='$(RESULTS)' $(NIGHTLY)

# Official images are pulled where an engine can pull them.
nightly-tests: tools
	@mkdir -p '$(RESULTS)'; \
	if docker pull -q busybox >/dev/null 2>&1; then export KUBE_EVENTBRIDGE_IMAGES=official; \
	else echo 'NOT RUN: official images need a Docker engine that can pull images' | tee -a '$(RESULTS)/not-run'; fi; \
	$(MAKE) --no-print-directory RESULTS='$(RESULTS)' nightly-suite

.PHONY: nightly-suite
nightly-suite:
	$(call suite,nightly,part-unit part-race part-integration part-containers part-faults)

nightly-race:
	$(MAKE) --no-print-directory faults FAULTS=$(NIGHTLY_FAULTS) SEED=$(NIGHTLY_SEED) \
		FAULTS_DIR='$(RESULTS)/faults-race' FAULTS_FLAGS='-race -once'

nightly-actions:
	$(MAKE) --no-print-directory faults FAULTS=0 SEED=$(NIGHTLY_SEED) \
		FAULTS_DIR='$(RESULTS)/faults-actions' FAULTS_FLAGS='-together'

nightly-nats nightly-kafka nightly-replicas:
	$(MAKE) --no-print-directory faults FAULTS=$(NIGHTLY_FAULTS) SEED=$(NIGHTLY_SEED) \
		FAULTS_DIR='$(RESULTS)/faults$(@:nightly%=%)' FAULTS_FLAGS='-late 4' BROKER=$(if $(findstring kafka,$@),kafka,nats) REPLICAS=$(if $(findstring replicas,$@),3,0)

.PHONY: faults
faults: ## Break everything FAULTS times at random and judge the log, see docs/faults.md
	@mkdir -p '$(FAULTS_DIR)'
	cd integration && $(GO) run ./cmd/faults -broker $(BROKER) -replicas $(REPLICAS) -faults $(FAULTS) -seed $(SEED) -parallel $(WORLDS) -dir '$(FAULTS_DIR)' $(FAULTS_FLAGS)

.PHONY: faults-replicate
faults-replicate: ## Break what a replica needs FAULTS times at random, and judge what it writes, see docs/faults.md
	@mkdir -p '$(FAULTS_DIR)-replicate'
	cd integration && $(GO) run ./cmd/faults-replicate -broker $(BROKER) -both $(BOTH) -faults $(FAULTS) -seed $(SEED) -dir '$(FAULTS_DIR)-replicate' $(FAULTS_FLAGS)

.PHONY: changes
changes: ## Break each rule of sequences and of the plan by a small change, and see its test fail; 15 minutes
	cd integration && CGO_ENABLED=0 $(GO) run -trimpath ./cmd/changes

.PHONY: bench
bench: ## Measure: benchmarks of the packages, then the bridge as a process beside its broker
	$(GO) test -run '^$$' $(BENCH_FLAGS) ./...
	cd integration && $(GO) run ./bench

.PHONY: monitoring
monitoring: ## Write the Prometheus rules, the dashboard and the reference of the metrics
	$(GO) test ./internal/monitoring -run Files -update

# A wait of a fixed time: one that nothing else ends, or one in a select of 200 ms to less than a minute, unless a comment
# behind it says why.
SLEEPS := '^\s*<-time\.After\(|case <-time\.After\((([2-9][0-9]{2}|[0-9]{4,}) \* time\.Millisecond|([0-9]+ \* )?time\.Second)\):$$'

.PHONY: lint
lint: $(GOLANGCI) sizes ## Check style, formatting, sizes, and that the go.mod files are tidy and agree
	@unformatted=$$(gofmt -l . </dev/null) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:" $$unformatted >&2; exit 1; fi
	@sleeping=$$(grep -rL --include='*_test.go' --exclude-dir='.?*' testing/synctest . | xargs grep -nE $(SLEEPS)); \
	if [ -n "$$sleeping" ]; then echo "a test sleeps; poll with a deadline, or use testing/synctest:" "$$sleeping" >&2; exit 1; fi
	@code=0; for m in $(MODULES); do \
		echo "lint: module $$m"; \
		(cd $$m && $(AS_RELEASED) $(GOLANGCI) run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...) || code=1; \
		(cd $$m && $(GO) mod tidy -diff) || code=1; \
	done; \
	awk '$$2 ~ /^v/ && version[$$1] && version[$$1] != $$2 { print FILENAME ": " $$0 " is " version[$$1] \
		" in another go.mod; with one version in all, packages are compiled once"; bad = 1 } \
		$$2 ~ /^v/ { version[$$1] = $$2 } END { exit bad }' $(MODULES:%=%/go.mod) >&2 || code=1; exit $$code

.PHONY: sizes
sizes: ## List packages, types and files that are too large or too small for a reader
	@cd integration && $(AS_RELEASED) $(GO) run ./cmd/sizes ..

.PHONY: fmt
fmt: $(GOLANGCI) ## Format all Go files
	@set -e; for m in $(MODULES); do (cd $$m && $(GOLANGCI) fmt --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: vuln
vuln: $(GOVULN) ## Look for known vulnerabilities in what the code calls; needs the network
	@for m in $(MODULES); do \
		echo "vuln: module $$m"; \
		(cd $$m && $(GOVULN) ./...); code=$$?; \
		if [ $$code -eq 3 ]; then exit 3; fi; \
		if [ $$code -ne 0 ]; then echo "vuln: NOT CHECKED: the database of vulnerabilities could not be reached, or the code does not build; see above" >&2; exit 1; fi; \
	done

.PHONY: reproducible
reproducible: ## Build the program a second time, elsewhere and with nothing cached, and compare; some minutes
	@$(MAKE) --no-print-directory build
	@set -e; dir=$$(mktemp -d); trap 'chmod -R u+w '"$$dir"'; rm -rf '"$$dir" EXIT; \
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t $$dir 2>/dev/null || true; \
	GOCACHE=$$dir/cache $(MAKE) --no-print-directory -C $$dir build BIN=$$dir/bin VERSION='$(VERSION)' COMMIT='$(COMMIT)'; \
	cmp $(BIN)/kube-eventbridge $$dir/bin/kube-eventbridge; \
	echo "reproducible: the same program twice, SHA-256 $$(sha256sum <$(BIN)/kube-eventbridge | cut -d' ' -f1)"

.PHONY: release-snapshot
release-snapshot: $(GORELEASER) ## Make all files of a release in dist/, of four platforms, and publish nothing; needs a clone with a remote
	$(GORELEASER) check
	$(GORELEASER) release --snapshot --clean --skip=publish

.PHONY: screenshots
screenshots: ## Take the pictures of docs/status.md; needs Chromium
	cd integration && $(GO) test -count=1 -timeout 10m ./e2e -run 'TestStatusPage_keeps' -screenshots '$(CURDIR)/docs/images'

.PHONY: tidy
tidy: ## Tidy the go.mod files
	@set -e; for m in $(MODULES); do echo "tidy: module $$m"; (cd $$m && $(GO) mod tidy); done

.PHONY: tools
tools: $(GOTESTSUM) $(TESTREPORT)

.PHONY: clean
clean: ## Remove what was built; .cache, with the control plane and the tools, stays
	rm -rf $(BIN) dist

$(GOLANGCI):
	@mkdir -p $(TOOLS)
	@echo "installing golangci-lint $(GOLANGCI_VERSION), once; it takes some minutes"
	$(AS_RELEASED) GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/golangci-lint $@

$(GOTESTSUM):
	@mkdir -p $(TOOLS)
	@echo "installing gotestsum $(GOTESTSUM_VERSION), once"
	$(AS_RELEASED) GOBIN=$(TOOLS) $(GO) install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
	@mv $(TOOLS)/gotestsum $@

# It takes a second, and go knows what has changed.
.PHONY: $(TESTREPORT)
$(TESTREPORT):
	@mkdir -p $(TOOLS)
	@cd integration && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o $@ ./cmd/testreport

$(GOVULN):
	@mkdir -p $(TOOLS)
	@echo "installing govulncheck $(GOVULN_VERSION), once"
	$(AS_RELEASED) GOBIN=$(TOOLS) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULN_VERSION)
	@mv $(TOOLS)/govulncheck $@

$(GORELEASER):
	@mkdir -p $(TOOLS)
	@echo "installing goreleaser $(GORELEASER_VERSION), once; it takes some minutes"
	$(AS_RELEASED) GOBIN=$(TOOLS) $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	@mv $(TOOLS)/goreleaser $@
