# The one entry point for developers and CI. `make help` lists the targets.
CARGO ?= cargo
SEEDS ?= 20
SEED ?= 7
FUZZ_SECONDS ?= 3600
ATTACKS ?= 1000

.PHONY: help check e2e envtest-e2e kind-e2e kind-e2e-short kind-up images-test test product-test test-all real-test fuzz attack mutants conformance conformance-apiserver conformance-controllers capi perfetto stale-replicaset foreign-clients public-manifests sim chaos bench lint up \
        generate build clean

help:            ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 26

# First drydock, whose simulations can plant defects in mcm; then mcm and fakecloud as they are shipped, without.
# BUILT=1 takes the programs as they are: CI builds once, and a build under way holds up every other call of cargo.
build:           ## all programs: drydock, mcm, fakecloud
ifndef BUILT
	@test -e target/debug/drydock || echo 'compiling drydock, mcm, fakecloud and all they depend on: about six minutes on two cores, this once'
	$(CARGO) build --workspace --exclude mcm --exclude fuzz --exclude capi-comparison --bins
	$(CARGO) build --workspace --exclude e2e --exclude fuzz --exclude capi-comparison --bins
endif

check:           ## before a commit: the format, and the tests of what the working tree changes (BASE=COMMIT: since then)
	@$(CARGO) build --quiet --workspace --bin check
	@target/debug/check $(BASE)

e2e: build       ## every scenario on the embedded stage: HTTPS, gRPC, separate processes
	target/debug/drydock run --stage embedded --junit target/e2e.xml
	@echo 'next: `make up` for a world to play with, `target/debug/drydock chaos --seeds 100` for random ones, `target/debug/drydock --help` for the rest'

envtest-e2e: build ## every scenario that can, on a real kube-apiserver and etcd
	target/debug/drydock run --stage envtest --junit target/envtest.xml

kind-e2e: build  ## every scenario that can, on a kind cluster: needs Docker and kind (or scripts/kubernetes)
	target/debug/drydock run --stage kind --junit target/kind.xml

# What a real cluster shows that an embedded one may not: pods, volumes, restarts; each takes 10 to 40 s there.
SHORT = lifecycle initialize delete_while_creating drain failover rolling_restart cloud_restarts evictions_under_budget volumes_move unreachable_node \
        namespace_goes roll_out_under_a_budget preserve_by_a_consumer health_check_node_deleted health_check_own_role health_check_two_requests
kind-e2e-short: build ## some of them, which together take at most ten minutes
	target/debug/drydock run $(SHORT) --stage kind --junit target/kind.xml

kind-up: build   ## a kind cluster with everything deployed, to play with; Ctrl-C ends it
	target/debug/drydock up --stage kind

images-test: build ## the images as containers of their own: needs Docker
	$(CARGO) test --workspace --test images

sim: build       ## every scenario in virtual time over SEEDS seeds
	target/debug/drydock run --stage sim --seeds $(SEEDS) --junit target/sim.xml

chaos: build     ## random worlds, users and faults in virtual time over SEEDS seeds
	target/debug/drydock chaos --seeds $(SEEDS) --junit target/chaos.xml

# Some tests wait for processes; others use the processor meanwhile.
TEST = INSTA_UPDATE=no RUST_TEST_THREADS=$$((2 * $$(getconf _NPROCESSORS_ONLN))) $(CARGO) test --workspace --no-fail-fast
test:            ## unit, property, sequence, contract and simulation tests
	$(TEST)

product-test:    ## the tests of mcm as it is shipped, without planted defects
	INSTA_UPDATE=no $(CARGO) test -p mcm -p mcm-core -p tidy

test-all:        ## those of `make test`, the long ones, with Go those of `make capi`, with Python that of `make perfetto`
	$(TEST) -- --include-ignored --skip figures_of
	$(MAKE) capi perfetto

capi: build      ## health checks compared with those of Cluster API, whose controllers it builds: needs Go
	$(CARGO) build -p capi-comparison -p tidy --bins
	integrations/capi/compare

# Exit status 77 means skipped, with the reason in the output.
perfetto: build  ## a trace of a run, read with Perfetto's own schema: needs Python
	integrations/perfetto/check || [ $$? = 77 ]

stale-replicaset: build ## Kubernetes' replicaset controller while it sees pods late (LONG=long: also until its expectations expire): needs scripts/kubernetes/build
	integrations/kube-controller-manager/run $(LONG) || [ $$? = 77 ]

foreign-clients: build ## client-go, kubectl, helm and kwok on the embedded API server, compared with a kube-apiserver: needs Go, Python, scripts/kubernetes/build
	integrations/clients/run || [ $$? = 77 ]

real-test:       ## the long tests that need a real control plane
	DRYDOCK_NEEDS_CONTROL_PLANE=1 $(TEST) --test it -- --ignored existing:: preservation_consumers:: the_real_api_server_rejects on_a_real_control_plane

fuzz:            ## mutated requests, expressions, schemas, messages and files, for FUZZ_SECONDS altogether (FUZZ_SEED: of that seed)
	$(CARGO) build --workspace --bin fuzz
	target/debug/fuzz run --seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

attack: build    ## hostile requests to a running system: nothing may end, and /healthz must stay fast
	$(CARGO) build --workspace --bin fuzz
	target/debug/fuzz attack --inputs $(ATTACKS)

# What is mutated is what decides on preservation; code of planted defects is not in the product.
MUTANTS = -p mcm-core -f 'mcm/core/src/preservation/*.rs' -f 'mcm/core/src/machine/preserve/*.rs' -e '**/defects.rs'
mutants:         ## changes the decision on preservation in every small way: which changes do the tests not notice?
	$(CARGO) install cargo-mutants --version 27.1.0 --locked --quiet --root target/tools
	PATH="$$PWD/target/tools/bin:$$PATH" $(CARGO) mutants $(MUTANTS) --no-shuffle --timeout 60 -o target/mutants -- --lib --test it -- --skip rollout::sizes --skip rollout::sequences --skip rollout::orders

conformance: conformance-apiserver conformance-controllers ## both contracts on a cluster with controllers, of DRYDOCK_CONTRACT_KUBECONFIG

conformance-apiserver: ## the API server's contract, also against the cluster of DRYDOCK_CONTRACT_KUBECONFIG
	@test -n "$$DRYDOCK_CONTRACT_KUBECONFIG" || { echo 'set DRYDOCK_CONTRACT_KUBECONFIG to the kubeconfig of a throwaway cluster'; exit 2; }
	INSTA_UPDATE=no RUST_TEST_THREADS=10 $(CARGO) test --workspace --exclude controllers --test it contract::

public-manifests: ## definitions and manifests of public projects, on the embedded server and on a kube-apiserver: needs Go and Python
	scripts/public-manifests/compare $(DETAILS)

conformance-controllers: ## the built-in controllers' contract, also against the cluster of DRYDOCK_CONTRACT_KUBECONFIG
	@test -n "$$DRYDOCK_CONTRACT_KUBECONFIG" || { echo 'set DRYDOCK_CONTRACT_KUBECONFIG to the kubeconfig of a throwaway cluster with controllers'; exit 2; }
	INSTA_UPDATE=no RUST_TEST_THREADS=10 $(CARGO) test -p controllers --test it contract
	INSTA_UPDATE=no RUST_TEST_THREADS=1 $(CARGO) test -p controllers --test it contract::whole_cluster

lint:            ## format, clippy with warnings denied, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --quiet

bench:           ## speed and memory, as whole-process figures
	$(CARGO) build --profile release-fast -p mcm -p fakecloud --bins
	$(CARGO) bench --profile release-fast -p e2e --bench first_light
	$(CARGO) test --workspace --test report --test live figures -- --ignored --nocapture

up: build        ## a control plane, fakecloud and mcm to play with; Ctrl-C ends it
	target/debug/drydock up

generate:        ## regenerates committed generated code
	$(CARGO) run --quiet --manifest-path scripts/generate/Cargo.toml

clean:           ## removes what was built and reported
	$(CARGO) clean
	rm -rf .drydock
