# SPDX-License-Identifier: GPL-2.0-only
# `make help` prints each target with the line that starts with ## above it.

export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
FUZZ_SECONDS ?= 60
ATTACK_SECONDS ?= 3600
ATTACK_SEED ?= $(shell date +%Y%m%d)
ATTACK_KINDS ?=

.PHONY: help conform run build check read test wheel deny docs fast deb image bench compat compat-long museum perfetto zoo live-test soak attack fuzz miri setup

## Set up, build, and compare schedulers on a simulated machine
run: build
	@scripts/build/demo.sh

## Print the targets
help:
	@awk '/^## / { text = substr($$0, 4) } /^[a-z-]+:/ && text { sub(/:.*/, ""); printf "make %-12s %s\n", $$0, text; text = "" }' Makefile

## Build the documentation: target/docs/site/index.html, man pages in target/docs/man
docs: build
	@scripts/build/docs.sh

## Build the command and compile the policies
build: setup
	@echo "== building windtunnel (a few minutes the first time)"
	@[ -t 2 ] || quiet=--quiet; cargo build --profile $${BUILD:-release} $$quiet -p windtunnel
	@scripts/build/policies.sh

## Check one policy in seconds: compile it, load it, run its tests with the sanitizer (POLICY=steal)
check:
	@scripts/check/policy.sh "$(POLICY)"

## Record that the text of a page is true of the outputs on it (PAGE=docs/tutorial.md)
read:
	@PAGES_READ="$(PAGE)" cargo test --quiet -p windtunnel --test integration documents::reading::the_text -- --nocapture

## Check formatting and lints, and run all tests
test:
	@scripts/setup.sh test
	@scripts/check/test.sh

## Check the licences, sources, versions and advisories of third-party crates (needs cargo-deny)
deny:
	@scripts/check/deny.sh

## Build the Python package and test it: target/wheels (BUILD=fast: with PGO)
wheel: setup
	@scripts/build/wheel.sh

## Build with profile-guided optimisation (simulations run a quarter faster): target/fast/release/windtunnel
fast: setup
	@scripts/build/fast.sh

## Build the Debian package from the fast build, and test it: target/deb (BUILD=release: without PGO)
deb: setup
	@scripts/build/deb.sh

## Build the Debian package and a container image with it, and test both (needs podman or docker)
image: setup
	@scripts/build/deb.sh image

## Measure the speed and print a table
bench: build
	@cargo bench --quiet -p bpf -p report -p windtunnel --bench engines --bench per_record --bench complexity
	@scripts/build/fast.sh bench

## Fetch, compile, load and run third-party schedulers (COMPAT_OBJECTS="a.bpf.o b.bpf.o" adds objects)
compat: build
	@scripts/compat/check.sh

## Run third-party schedulers for longer than their watchdog timeouts, and write docs/compat.md (hours)
compat-long: build
	@scripts/compat/check.sh long

## Explore public schedulers before and after commits that mended a race or stall (SCX=DIR: a clone of sched-ext/scx)
museum: build
	@. scripts/build/build.sh && scripts/measure/museum/museum.py "$(SCX)" "$$build/windtunnel" $(COMMITS)

## Compare the events of the recordings in a directory with perf, trace-cmd and babeltrace2 (ZOO=DIR)
zoo: build
	@scripts/measure/zoo.py target/$${BUILD:-release}/windtunnel "$(ZOO)"

## Check exported traces with Perfetto's trace processor (needs Node)
perfetto: build
	@scripts/perfetto/check.sh

## Load the policies into a real kernel booted in QEMU (PARTS="policies numa commands speed fidelity fidelity-host programs whole verifier")
live-test:
	@scripts/live/test.sh $(PARTS)

## Compare the simulator with a stepped kernel: example scripts, then random ones (SECONDS=60 SEED=1 SET=fair WRITE=1 LOGS=DIR)
conform:
	@scripts/conform.sh compare --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) --set $(or $(SET),all) \
	  $(if $(WRITE),--write docs/conform.md) $(if $(LOGS),--logs $(LOGS))

## Load each policy for minutes on a slow emulated machine (POLICIES="pmqs o1" SECONDS_EACH=120)
soak:
	@scripts/live/test.sh soak

## Run damaged inputs and hostile policies for hours (ATTACK_SECONDS=3600 ATTACK_SEED=N ATTACK_KINDS="object policy")
attack: setup
	@scripts/check/attack.sh $(ATTACK_SECONDS) $(ATTACK_SEED) $(ATTACK_KINDS)

## Run the fuzz targets for FUZZ_SECONDS each (needs cargo-fuzz and a nightly compiler)
fuzz: setup
	@scripts/check/fuzz.sh $(FUZZ_SECONDS)

## Find undefined behaviour in code that policies' pointers reach (needs a nightly compiler with Miri)
miri:
	@scripts/check/miri.sh

## Install missing packages
setup:
	@scripts/setup.sh
