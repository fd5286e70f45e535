# Every variable can be overridden: make test RACE= INTEGRATION_FLAGS='-run Kill -v'
GO                ?= go
BIN               ?= $(CURDIR)/bin
CACHE             ?= $(CURDIR)/.cache
TOOLS             ?= $(CACHE)/bin
GOLANGCI_VERSION  ?= v2.15.0
GOVULN_VERSION    ?= v1.2.0
GORELEASER_VERSION ?= v2.16.0
VERSION           ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT            ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS           ?= -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# Flags of go test for the unit tests, the integration tests, and the benchmarks. What was tested in a child process is not known to its cache: -count=1.
# Two packages at a time: integration/e2e takes longer than all others together, and mostly waits.
TEST_FLAGS        ?=
INTEGRATION_FLAGS ?= -p 2 -timeout 40m -count=1
BENCH_FLAGS       ?= -bench . -benchmem
# The packages with goroutines; they are tested once more with the race detector.
RACE              ?= ./source/... ./sink/... ./checkpoint/... ./internal/bridge/... ./internal/kafka/... ./internal/tail/... ./cmd/...
# Faults to inject with make faults, what they follow from, how many worlds are broken at a time, what the bridge publishes to: nats or kafka, and how many bridges run there: 0 for one without a
# Lease, 2, 3, or any, which draws it. Results are kept by commit, and by whether
# the tree is as committed, so that the same command goes on where it was cut short.
FAULTS            ?= 60
SEED              ?= 1
WORLDS            ?= 2
BROKER            ?= nats
REPLICAS          ?= any
FAULTS_FLAGS      ?=
FAULTS_TESTS      := /faults/(world|outage|campaign)$$
# They run by themselves, in the package's directory, so that go test shows what was not run.
NODE_TESTS        := /integration/node$$
FAULTS_DIR        ?= $(CACHE)/faults/$(COMMIT)$(shell test -z "$$(git status --porcelain 2>/dev/null)" || echo -dirty)$(BROKER:%=-%)-$(REPLICAS)
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
GOVULN   := $(TOOLS)/govulncheck-$(GOVULN_VERSION)
GORELEASER := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)

.DEFAULT_GOAL := help
.SUFFIXES:

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Show the whole way on a real API server; DEMO_KEEP=1 leaves it running
	cd integration && $(GO) run ./cmd/demo

.PHONY: build
build: ## Build a static binary, bin/kube-eventbridge
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/kube-eventbridge ./cmd/kube-eventbridge

.PHONY: image
image: ## Make a container image, dist/kube-eventbridge-image.tar, an OCI archive; needs no engine. IMAGE_PUSH=registry/name:tag also pushes it
	cd integration && $(GO) run ./cmd/image -version '$(VERSION)' -commit '$(COMMIT)' -created "$$(git log -1 --format=%ct)" -source '$(IMAGE_SOURCE)' \
		-platforms '$(IMAGE_PLATFORMS)' -name '$(IMAGE)' -out '$(IMAGE_FILE)' -push '$(IMAGE_PUSH)'

.PHONY: test
test: test-unit test-race test-integration test-containers test-node ## Run all tests

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go
	$(GO) test $(TEST_FLAGS) ./...

.PHONY: test-race
test-race: ## Run the tests of packages with goroutines under the race detector
ifeq ($(strip $(RACE)),)
	@echo "test-race: RACE is empty, nothing to do"
else
	@if command -v $(firstword $(CC)) >/dev/null; then \
		set -x; CGO_ENABLED=1 $(GO) test -race $(TEST_FLAGS) $(RACE); \
	else \
		echo "test-race: NOT RUN: there is no C compiler ($(CC)), and the race detector needs one; install gcc" >&2; \
		test -z "$$CI"; \
	fi
endif

.PHONY: test-integration
test-integration: ## Run the tests on a real API server and real brokers; the first time builds them
	cd integration && $(GO) test $(INTEGRATION_FLAGS) $$($(GO) list ./... | grep -v -E '$(FAULTS_TESTS)|$(NODE_TESTS)')

# In the package's directory: so go test shows what was not run, and why.
.PHONY: test-containers
test-containers: ## Run the tests with brokers and an API server in containers; says so if there is no Docker engine
	cd integration/containers && $(GO) test $(INTEGRATION_FLAGS)

.PHONY: test-node
test-node: ## Run the tests of the chart on a cluster with a node, whose programs are built once; needs root and containerd, and says so
	cd integration/node && $(GO) test $(INTEGRATION_FLAGS)

.PHONY: test-faults
test-faults: ## Run the tests that break everything, once alone and 116 times at random; some minutes
	cd integration && $(GO) test $(INTEGRATION_FLAGS) -p 1 -timeout 45m $$($(GO) list ./... | grep -E '$(FAULTS_TESTS)')

.PHONY: faults
faults: ## Break everything FAULTS times at random and judge the log, see docs/faults.md
	@mkdir -p '$(FAULTS_DIR)'
	cd integration && $(GO) run ./cmd/faults -broker $(BROKER) -replicas $(REPLICAS) -faults $(FAULTS) -seed $(SEED) -parallel $(WORLDS) -dir '$(FAULTS_DIR)' $(FAULTS_FLAGS)

.PHONY: bench
bench: ## Measure: benchmarks of the packages, then the bridge as a process beside its broker
	$(GO) test -run '^$$' $(BENCH_FLAGS) ./...
	cd integration && $(GO) run ./bench

.PHONY: monitoring
monitoring: ## Write the Prometheus rules, the dashboard and the reference of the metrics
	$(GO) test ./internal/monitoring -run Files -update

.PHONY: lint
lint: $(GOLANGCI) ## Check style, formatting, and that the go.mod files are tidy
	@unformatted=$$(gofmt -l . </dev/null) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:" $$unformatted >&2; exit 1; fi
	@code=0; for m in $(MODULES); do \
		echo "lint: module $$m"; \
		(cd $$m && $(GOLANGCI) run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...) || code=1; \
		(cd $$m && $(GO) mod tidy -diff) || code=1; \
	done; exit $$code

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

.PHONY: clean
clean: ## Remove what was built; .cache, with the control plane and the tools, stays
	rm -rf $(BIN) dist

$(GOLANGCI):
	@mkdir -p $(TOOLS)
	@echo "installing golangci-lint $(GOLANGCI_VERSION), once; it takes some minutes"
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/golangci-lint $@

$(GOVULN):
	@mkdir -p $(TOOLS)
	@echo "installing govulncheck $(GOVULN_VERSION), once"
	GOBIN=$(TOOLS) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULN_VERSION)
	@mv $(TOOLS)/govulncheck $@

$(GORELEASER):
	@mkdir -p $(TOOLS)
	@echo "installing goreleaser $(GORELEASER_VERSION), once; it takes some minutes"
	GOBIN=$(TOOLS) $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	@mv $(TOOLS)/goreleaser $@
