# SPDX-License-Identifier: GPL-2.0-only
# make run    set up, build, run the main job
# make test   set up, check formatting and lints, run every test
# make fast   the command built along a profile of its own runs: a third faster, at target/fast/release/windtunnel
# make bench  speed, in a table (of that build)
# make compat other people's schedulers: fetch, compile, load, run (COMPAT_OBJECTS="a.bpf.o b.bpf.o" for more of them)
# make perfetto   exports, asked about by Perfetto's own trace processor (needs Node)
# make compat-long  the same for longer than every watchdog, on four machines under five workloads; writes docs/compat.md (hours)
# make live-test  the policies in a real kernel, booted in QEMU (PARTS="policies numa speed", fidelity, verifier)
# make soak   the policies in a real kernel on a slow machine, each for minutes (POLICIES="pmqs o1", SECONDS_EACH=120)
# make attack     damaged inputs and hostile policies for hours (ATTACK_SECONDS=3600 ATTACK_SEED=N ATTACK_KINDS="object policy")
# make fuzz   the fuzz targets, FUZZ_SECONDS each (needs cargo-fuzz and a nightly compiler)

export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
FUZZ_SECONDS ?= 60
ATTACK_SECONDS ?= 3600
ATTACK_SEED ?= $(shell date +%Y%m%d)
ATTACK_KINDS ?=

.PHONY: run build fast test bench compat compat-long perfetto live-test soak attack fuzz setup

run: build
	@scripts/demo.sh

build: setup
	@cargo build --release --quiet -p windtunnel
	@scripts/policies.sh

test:
	@scripts/setup.sh test
	@scripts/test.sh

fast: setup
	@scripts/fast.sh

bench: build
	@cargo bench --quiet -p bpf -p report -p windtunnel --bench engines --bench per_record --bench complexity
	@scripts/fast.sh bench

compat: build
	@scripts/compat.sh

compat-long: build
	@scripts/compat.sh long

perfetto: build
	@scripts/perfetto.sh

live-test:
	@scripts/live-test.sh $(PARTS)

attack: setup
	@scripts/attack.sh $(ATTACK_SECONDS) $(ATTACK_SEED) $(ATTACK_KINDS)

soak:
	@scripts/live-test.sh soak

fuzz: setup
	@scripts/fuzz.sh $(FUZZ_SECONDS)

setup:
	@scripts/setup.sh
