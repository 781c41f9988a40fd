# One door per task. `make demo` and `make test` do everything on a fresh machine.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
PYTHON := $(VENV)/bin/python
WIRESUM := $(VENV)/bin/wiresum
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export CARGO_TERM_PROGRESS_WHEN ?= auto
# Images of containers set this. Then each process compiles PyTorch's sources again, which doubles the time of an import.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help build smoke demo test test-rust test-python soak lint format bench doctor p4 generate requirements docs clean \
	packages wheel sdist deb image test-packages

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## Install what is missing, build, and train over a summing network beside Gloo (about 3 minutes after set-up)
	$(WIRESUM) demo $(DEMO_ARGS)

build: $(VENV)/.installed ## Install what is missing and build; the command is then .venv/bin/wiresum
	scripts/build.sh

# Steps of one training over a summing switch and one over Gloo: enough for a loss, not for accuracy.
SMOKE_STEPS = 5

# A test may skip only for a capability that the machine lacks: all others are required by name.
REQUIRED = WIRESUM_TESTS_REQUIRE="$${WIRESUM_TESTS_REQUIRE-$$($(PYTHON) -m tests.capabilities)}"

# A change is judged by the same inputs as the one before it; `make soak` draws new ones.
RUN_TESTS = $(REQUIRED) PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED-1} $(PYTHON) scripts/run_tests.py

smoke: build lint ## Build, lint and one training: CI runs this before the tests
	$(WIRESUM) demo --workers 2 --max-steps $(SMOKE_STEPS) --output build/smoke

test: build ## Install what is missing, build, and run every test
	$(RUN_TESTS)

test-rust: build ## Rust tests: unit, property, cluster under virtual time, kernel test-run
	$(RUN_TESTS) rust

test-python: build ## Python tests: backend, testbed in network namespaces, command line
	$(RUN_TESTS) python

soak: build ## Random tests with SOAK (100) times as many seeds, and the slow ones: hours
	$(REQUIRED) WIRESUM_SOAK=$${SOAK:-100} cargo test --workspace --locked --quiet --release
	$(REQUIRED) $(PYTHON) -m pytest -m soak --timeout=0

lint: $(VENV)/.installed ## Formatting, clippy, ruff, mypy, generated files
	scripts/lint.sh

format: $(VENV)/.installed ## Format Rust, Python and C in place
	cargo fmt --all
	ruff format python tests
	ruff check --fix-only --quiet python tests
	clang-format-19 -i bpf/{,keyed/,rows/,switch/}*.c bpf/{,keyed/,rows/,switch/}*.h python/wiresum/torch/csrc/*.cpp python/wiresum/torch/csrc/*.h

packages: wheel sdist deb image ## All of these, in build/packages

wheel: $(VENV)/.installed ## A wheel with the daemon inside, for other machines
	scripts/wheel.sh

sdist: $(VENV)/.installed ## The sources as pip builds them, where no wheel fits
	scripts/sdist.sh

deb: $(VENV)/.installed ## A Debian package of the daemon
	scripts/deb.sh

image: $(VENV)/.installed ## An OCI image of the daemon
	scripts/image.sh

test-packages: build ## Installs what `make packages` has built into empty places, and trains there
	$(REQUIRED) $(PYTHON) -m pytest -m packages tests/packages

bench: build ## Every benchmark with its rival in the same run (tables, JSON under build/bench)
	scripts/bench.sh

doctor: build ## What this machine can do, and what to install for the rest
	$(WIRESUM) doctor

p4: $(VENV)/.installed ## Compile the P4 programs and replay the golden traces where p4c and BMv2 are; say what was checked where not
	cargo run --quiet --locked -p wiresum-wire --bin generate -- --check
	$(PYTHON) -m pytest -v -m "soak or not soak" tests/p4

generate: ## Regenerate the C, P4 and Python definitions from crates/wire, tables of the docs and JSON schemas of files
	cargo run --quiet --locked -p wiresum-wire --bin generate
	$(PYTHON) scripts/tables.py
	$(PYTHON) scripts/schemas.py

docs: build ## The site, in build/site/html: pages, commands, Python; links are checked
	scripts/docs.sh

requirements: ## Pin the Python packages of requirements/*.in anew
	scripts/pin-requirements.sh

clean: ## Remove what was built; the virtual environment stays
	cargo clean
	rm -rf build python/wiresum/*.so python/wiresum/torch/*.so

$(VENV)/.installed: requirements/dev.txt scripts/setup.sh
	scripts/setup.sh
	touch $@
