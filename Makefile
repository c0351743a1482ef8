# The one entry point for developers and CI. `make help` lists the targets.
CARGO ?= cargo
SEEDS ?= 20
SEED ?= 7

.PHONY: help e2e test conformance sim bench lint up generate build clean

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build:           ## all programs: drydock, mcm, fakecloud
	$(CARGO) build --workspace --bins

e2e: build       ## every scenario on the embedded stage: HTTPS, gRPC, separate processes
	target/debug/drydock run --stage embedded --junit target/e2e.xml

sim: build       ## every scenario in virtual time over SEEDS seeds
	target/debug/drydock run --stage sim --seeds $(SEEDS) --junit target/sim.xml

test:            ## unit, property, sequence, contract and simulation tests
	INSTA_UPDATE=no $(CARGO) test --workspace

conformance:     ## the API server's contract, also against the cluster of DRYDOCK_CONTRACT_KUBECONFIG
	@test -n "$$DRYDOCK_CONTRACT_KUBECONFIG" || { echo 'set DRYDOCK_CONTRACT_KUBECONFIG to the kubeconfig of a throwaway cluster'; exit 2; }
	INSTA_UPDATE=no $(CARGO) test -p apiserver --test it contract

lint:            ## format, clippy with warnings denied, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --quiet

bench:           ## speed and memory, as whole-process figures
	$(CARGO) bench --profile release-fast -p e2e --bench first_light

up: build        ## a control plane, fakecloud and mcm to play with; Ctrl-C ends it
	target/debug/drydock up

generate:        ## regenerates committed generated code
	$(CARGO) run --quiet --manifest-path scripts/generate/Cargo.toml

clean:           ## removes what was built and reported
	$(CARGO) clean
	rm -rf .drydock
