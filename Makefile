# SPDX-License-Identifier: GPL-2.0-only
# make run    set up, build, run the main job
# make test   set up, check formatting and lints, run every test
# make bench  speed, in a table
# make compat other people's schedulers: fetch, compile, load, run
# make live-test  the policies in a real kernel, booted in QEMU
# make fuzz   the fuzz targets, FUZZ_SECONDS each (needs cargo-fuzz and a nightly compiler)

export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
FUZZ_SECONDS ?= 60

.PHONY: run build test bench compat live-test fuzz setup

run: build
	@scripts/demo.sh

build: setup
	@cargo build --release --quiet -p windtunnel
	@scripts/policies.sh

test: setup
	@scripts/test.sh

bench: build
	@cargo bench --quiet --workspace

compat: build
	@scripts/compat.sh

live-test:
	@scripts/live-test.sh

fuzz: setup
	@scripts/fuzz.sh $(FUZZ_SECONDS)

setup:
	@scripts/setup.sh
